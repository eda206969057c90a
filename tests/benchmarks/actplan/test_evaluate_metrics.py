"""The metrics for the library evaluate: equal to the tasks' numbers, loaded from their folder
without a network.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.slow import lcs, lines, normalised
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks import actplan
from lmms_egoplan.benchmarks.actplan.classifier import load_classifier
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from patience import FOREVER_S

METRICS = Path(actplan.__file__).resolve().with_name("evaluate_metrics")
GOLD = "walk_to(table)\nopen(box)\ngrab(cup)"


@pytest.fixture(autouse=True)
def environment(real_encoder, monkeypatch, tmp_path):
    """Set separate folders of evaluate for each test."""
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path / "modules")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def metric(tmp_path):
    import evaluate

    return lambda name: evaluate.load(str(METRICS / name), cache_dir=str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    encoder = write_encoder(tmp_path_factory.mktemp("encoder"))
    return str(write_classifier(tmp_path_factory.mktemp("classifier"), encoder))


@pytest.mark.parametrize("name", ["actplan_lcs", "actplan_classifier"])
def test_every_metric_is_described(metric, name):
    loaded = metric(name)
    assert "ActPlan-1K, sec. 4.2" in " ".join(loaded.description.split())
    assert "su2024actplan" in loaded.citation
    first = loaded.features[0] if isinstance(loaded.features, list) else loaded.features
    assert set(first) == {"predictions", "references"}
    assert all(
        part in loaded.inputs_description
        for part in ("Args:", "Returns:", "Examples:", "predictions (list of")
    )


def test_scores_equal_a_slow_table_of_prefixes(metric):
    predictions = [
        "walk_to(the_table)\ngrab(cup1)\n\nopen(box)",
        "1. grab(cup)\n2. walk_to(kitchen_table)",
    ]
    references = [GOLD, "walk_to(table)\ngrab(cup)\nwalk_to(table)\n"]
    results = metric("actplan_lcs").compute(predictions=predictions, references=references)
    slow = [
        lcs(lines(plan), lines(gold)) for plan, gold in zip(predictions, references, strict=True)
    ]
    assert min(slow) > 0
    norms = [
        normalised(length, lines(plan), lines(gold))
        for length, plan, gold in zip(slow, predictions, references, strict=True)
    ]
    assert [row["lcs"] for row in results["per_plan"]] == slow
    assert results["lcs"] == sum(slow) / 2
    assert results["lcs_norm"] == pytest.approx(sum(norms) / 2)
    assert results["num_plans"] == 2


def test_several_gold_plans(metric):
    results = metric("actplan_lcs").compute(
        predictions=["Plan:\n1. grab(cup)\n2. open(box)", "open(box)"],
        references=[[GOLD, "grab(cup)\nopen(box)"], ["close(box)", "open(box)"]],
    )
    first, second = results["per_plan"]
    assert (first["lcs_parsed"], second["lcs"], second["lcs_best"], second["lcs_norm_best"]) == (
        1,
        0,
        1,
        1.0,
    )
    assert results["lcs_norm_parsed"] == pytest.approx((1 / 3 + 0) / 2)
    assert results["num_plans_parsed"] == 2


def test_means_exclude_plans_without_a_gold_plan(metric):
    results = metric("actplan_lcs").compute(
        predictions=[GOLD, GOLD, ""], references=[GOLD, " \n", GOLD]
    )
    assert (results["num_plans"], results["lcs"], results["lcs_norm"]) == (2, 1.5, 0.5)
    assert results["num_plans_parsed"] == 2
    assert set(results["per_plan"][1].values()) == {None}
    nothing = metric("actplan_lcs").compute(predictions=[GOLD], references=[[]])
    assert math.isnan(nothing["lcs"])
    assert math.isnan(nothing["lcs_norm_best"])
    assert nothing["num_plans"] == 0


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([GOLD, None], [GOLD, GOLD], r"predictions\[1\] is None"),
        ([GOLD], [[None, GOLD]], r"references\[0\]\[0\] is None"),
    ],
)
def test_an_error_names_the_position_of_none(metric, predictions, references, message):
    with pytest.raises(ValueError, match=message):
        metric("actplan_lcs").compute(predictions=predictions, references=references)


@pytest.mark.parametrize("name", ["actplan_lcs", "actplan_classifier"])
@pytest.mark.parametrize("batch", [False, True])
def test_an_empty_list_raises_an_error(metric, name, batch, classifier):
    loaded = metric(name)
    add = loaded.add_batch if batch else loaded.compute
    with pytest.raises(ValueError, match="predictions is empty"):
        add(predictions=[], references=[])


def test_half_a_surrogate_pair_is_scored(metric, classifier):
    broken = "grab(cup \ud83d)"
    results = metric("actplan_lcs").compute(
        predictions=[broken, broken], references=[[broken], ("open(\udc00)",)]
    )
    assert [row["lcs"] for row in results["per_plan"]] == [1, 0]
    lcs_metric = metric("actplan_lcs")
    lcs_metric.add(prediction=broken, reference=broken)
    lcs_metric.add(prediction="", reference=broken)
    assert lcs_metric.compute()["lcs"] == 0.5
    results = metric("actplan_classifier").compute(
        predictions=[broken], references=[broken], classifier=classifier
    )
    assert results["num_plans"] == 1


def test_thinking_is_not_part_of_a_plan(metric, classifier):
    plans = [f"<think>grab(plate)\n</think>{GOLD}", "[THINK]grab(plate)"]
    results = metric("actplan_lcs").compute(predictions=plans, references=[GOLD, GOLD])
    assert [row["lcs_norm"] for row in results["per_plan"]] == [1, 0]
    results = metric("actplan_classifier").compute(
        predictions=plans, references=[GOLD, GOLD], classifier=classifier
    )
    expected = metric("actplan_classifier").compute(
        predictions=[GOLD], references=[GOLD], classifier=classifier
    )
    assert results["probabilities"] == [*expected["probabilities"], None]


def test_arguments_take_precedence_over_the_environment(metric, classifier, monkeypatch):
    encoder = os.environ["LMMS_EGOPLAN_ENCODER"]
    for variable in ("LMMS_EGOPLAN_ENCODER", "LMMS_EGOPLAN_BLEURT"):
        monkeypatch.setenv(variable, "/no/such/folder")
    assert (
        metric("actplan_lcs").compute(predictions=[GOLD], references=[GOLD], encoder=encoder)["lcs"]
        == 3
    )
    results = metric("actplan_classifier").compute(
        predictions=[GOLD], references=[GOLD], classifier=classifier
    )
    assert results["num_plans"] == 1
    with pytest.raises(LmmsEgoplanError, match="/no/such/folder"):
        metric("actplan_lcs").compute(predictions=[GOLD], references=[GOLD])


def test_the_classifiers_verdicts(metric, classifier):
    predictions = ["1. grab(cup)", "open(box)\nclose(box)", "", "grab(cup)"]
    results = metric("actplan_classifier").compute(
        predictions=predictions, references=[GOLD, GOLD, GOLD, ""], classifier=classifier
    )
    gold = " ".join(GOLD.splitlines())
    expected = load_classifier(classifier).judge(
        [(gold, "grab(cup)"), (gold, "open(box) close(box)")]
    )
    assert results["verdicts"] == [*(verdict.correct for verdict in expected), False, None]
    assert results["probabilities"] == [*(verdict.probability for verdict in expected), None, None]
    assert results["num_plans"] == 3
    assert results["correct"] == sum(verdict.correct for verdict in expected) / 3
    assert results["truncated"] == 0


def test_a_missing_classifier_raises_an_error_with_advice(metric):
    with pytest.raises(
        LmmsEgoplanError, match=r"LMMS_EGOPLAN_BLEURT.*`lmms-egoplan train actplan-bleurt`"
    ):
        metric("actplan_classifier").compute(predictions=[GOLD], references=[GOLD])


def test_the_command_prints_the_folder_of_the_metrics():
    assert CliRunner().invoke(app, ["metrics-path", "actplan"]).stdout == f"{METRICS}\n"


@pytest.mark.nightly
def test_the_readmes_example_works(tmp_path):
    """A new process knows only the folder that the command prints."""
    environment = os.environ | {"HF_HOME": str(tmp_path)}
    command = [
        sys.executable,
        "-c",
        "from lmms_egoplan.cli import app; app()",
        "metrics-path",
        "actplan",
    ]
    printed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=FOREVER_S, check=True
    )
    code = (
        "import evaluate, json, sys\n"
        "metric = evaluate.load(sys.argv[1] + '/actplan_lcs')\n"
        f"metric.add_batch(predictions=[{GOLD!r}], references=[{GOLD!r}])\n"
        "print(json.dumps(metric.compute()))"
    )
    command = [sys.executable, "-c", code, printed.stdout.strip()]
    done = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["lcs"] == 3
    assert Path(printed.stdout.strip()) == METRICS
