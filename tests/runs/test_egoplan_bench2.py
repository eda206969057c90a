"""Run EgoPlan-Bench2 on real annotations.

Both harnesses and a slow evaluation give the same results.
"""

import json

import pytest

from benchmarks.egoplan import bench2_questions
from benchmarks.egoplan.bench2_questions import DOMAINS, EXAMPLES, write_questions
from benchmarks.egoplan.derived_questions import DATA, available
from benchmarks.egoplan.published_reference import bench2_letter
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan_bench2
from lmms_egoplan.report.build import build_report
from report.report_json import groups
from runs.both_harnesses import assert_same_results, in_lm_eval, in_lmms_eval
from runs.harness import hf_vlm, run
from runs.prepared_set import save_letter_lover
from runs.slow_egoplan import (
    assert_reports,
    assert_same_ranking,
    assert_same_replies,
    choices_in,
    logged,
)
from runs.slow_egoplan_bench2 import SlowEgoPlanBench2, by_domain, by_scenario, right_of

pytestmark = pytest.mark.skipif(
    not (available() and EXAMPLES.exists()), reason=f"needs the public annotations in {DATA}"
)

TASKS = ("egoplan_bench2", "egoplan_bench2_generate")
EVERY = 5  # the slow evaluation ranks every fifth question
FEW, MANY = 24, bench2_questions.DERIVED


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(FEW, marks=pytest.mark.whole),
        pytest.param(MANY, marks=pytest.mark.nightly),
    ],
)
def data(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
        patch.setattr(bench2_questions, "DERIVED", request.param)
        write_questions(folder / "media")
        prepare_egoplan_bench2(
            folder / "media" / "annotations.json", Media({"Ego4D": folder / "media" / "ego4d"})
        )
        yield folder


@pytest.fixture(scope="module")
def qwen(data):
    return save_letter_lover("qwen2_5_vl", data / "qwen")


@pytest.fixture(scope="module")
def slow(data, qwen):
    return SlowEgoPlanBench2(qwen, data / "media")


@pytest.fixture(scope="module")
def runs(qwen):
    """Return the runs of lmms-eval and lm-eval."""
    return (
        in_lmms_eval(
            qwen, *TASKS, batch_size=8, gen_kwargs=f"max_new_tokens={SlowEgoPlanBench2.MOST_TOKENS}"
        ),
        in_lm_eval(
            qwen, *TASKS, batch_size=8, gen_kwargs={"max_gen_toks": SlowEgoPlanBench2.MOST_TOKENS}
        ),
    )


def assert_both_are_equal(runs, task):
    assert_same_results(*runs, [task])
    first, second = (logged(run, task) for run in runs)
    for sample_id, sample in first.items():
        assert second[sample_id]["prediction"] == sample["prediction"]


def test_rankings_and_accuracies_equal_the_slow_evaluation(runs, slow):
    assert_both_are_equal(runs, "egoplan_bench2")
    run = runs[0]
    assert len(logged(run, "egoplan_bench2")) == len(slow.records)
    records = slow.records[::EVERY]
    ranked = [slow.rank(record, slow.uniform(record)) for record in records]
    assert_same_ranking(run, "egoplan_bench2", ranked, records)
    right = right_of(slow.records, choices_in(run, "egoplan_bench2", slow.records))
    expected = {"acc": sum(right) / len(right), "coverage": 1.0} | by_domain(slow.records, right)
    assert 0 < expected["acc"] < 1
    assert_reports(run, "egoplan_bench2", expected, len(slow.records))


def test_letters_equal_the_slow_evaluation(runs, slow):
    assert_both_are_equal(runs, "egoplan_bench2_generate")
    run = runs[0]
    predictions = logged(run, "egoplan_bench2_generate")
    replies = [slow.reply(record, slow.published(record)).strip() for record in slow.records]
    assert_same_replies(run, "egoplan_bench2_generate", replies, slow.records)
    letters = [bench2_letter(reply) or None for reply in replies]
    assert [predictions[record["sample_id"]]["prediction"] for record in slow.records] == letters
    right = [
        letter == record["golden_choice_idx"]
        for letter, record in zip(letters, slow.records, strict=True)
    ]
    assert any(right)
    clear = [reply if len(reply) == 1 and reply in "ABCD" else None for reply in replies]
    clearly_right = [
        letter == record["golden_choice_idx"]
        for letter, record in zip(clear, slow.records, strict=True)
    ]
    expected = {
        "acc": sum(right) / len(right),
        "acc_clear": sum(clearly_right) / len(right),
        "unparsed": clear.count(None) / len(clear),
    }
    expected |= by_domain(slow.records, right)
    assert_reports(run, "egoplan_bench2_generate", expected, len(slow.records))


@pytest.mark.nightly
@pytest.mark.parametrize("data", [MANY], indirect=True)
def test_the_report_has_domains_and_scenarios(data, qwen, slow, tmp_path):
    """The slices cover the ranked task; the table of scenarios covers both tasks."""
    limit = ("--gen_kwargs", f"max_new_tokens={SlowEgoPlanBench2.MOST_TOKENS}")
    done = run(data, data / "runs", *hf_vlm(qwen, ",".join(TASKS), *limit))
    build_report([data / "runs"], tmp_path, {}, BENCHMARKS, lambda *_: None)
    (section,) = json.loads((tmp_path / "report.json").read_text())["benchmarks"]
    samples = {
        sample["details"]["predictions"]["sample_id"]: sample["acc"]["score"]
        for sample in done.samples["egoplan_bench2"]
    }
    right = [samples[record["sample_id"]] == 1 for record in slow.records]
    domains = {(f"acc_{name.lower().replace(' ', '_')}"): name for name in DOMAINS}
    for attribute, shares in (
        (
            "domain",
            {domains[name]: share for name, share in by_domain(slow.records, right).items()},
        ),
        ("scenario", by_scenario(slow.records, right)),
    ):
        slices = groups(section, attribute)
        values = {
            group: score["value"]
            for (group, run), score in slices.items()
            if run.endswith("(egoplan_bench2)")
        }
        assert values == {name: pytest.approx(100 * share) for name, share in shares.items()}
    lines = (tmp_path / "tables" / "egoplan_bench2_scenarios.csv").read_text().splitlines()
    baselines = 4
    assert len(lines) == 1 + (2 + baselines) * len(by_scenario(slow.records, right))
