"""`lmms-egoplan compare` decides whether two runs are different or equal."""

import json
import re
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.cli import app
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.changes import changes_of
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import scores_section
from report.answers import Answers
from report.reading import HARNESSES, all_tasks
from report.synthetic import write_run

COUNT = 105


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


def compare(*arguments):
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def rows_of(result, *, is_comparable=True):
    """Return the table's cells by task and column, with plain hyphens. Check the exit code."""
    assert result.exit_code == (0 if is_comparable else 1), result.output
    lines = [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]
    start = next(number for number, line in enumerate(lines) if line[:2] == ["Task", "Questions"])
    minus = str.maketrans("\u2212\u2013", "--")
    table = first_lines(lines[start + 2 :], len(lines[start]))
    titles = [title.translate(minus) for title in lines[start]]
    return {
        cells[0]: dict(zip(titles, (cell.translate(minus) for cell in cells), strict=True))
        for cells in table
    }


def first_lines(lines, width):
    """Return the first lines with this number of cells."""
    end = next((number for number, line in enumerate(lines) if len(line) != width), len(lines))
    return lines[:end]


def answers(accuracy=0.6, count=COUNT, unscored=0.0, seed=1):
    return {"egoplan_val": egoplan_answers(count, accuracy, seed, unscored)}


def written(folder, tasks, harness="lmms-eval", model="org/m"):
    """Write a run, and return its folder."""
    return write_run(folder, harness, model, tasks).parent


def edit_results(folder, edit):
    (path,) = folder.glob("*.json")
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def edit_samples(folder, edit):
    (path,) = folder.glob("*.jsonl")
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    for sample in samples:
        edit(sample)
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))


def score_of(folder):
    (path,) = folder.glob("*.jsonl")
    return [json.loads(line)["acc"]["score"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_same_answers_are_equal(tmp_path, harness):
    runs = [written(tmp_path / name, answers(), harness) for name in "ab"]
    row = rows_of(compare(*runs, "--margin", 20))["egoplan_val"]
    assert row["Verdict"] == "equal within 20 points"
    assert (row["Questions"], row["A - B"], row["Low"], row["High"]) == (
        str(COUNT),
        "0.00",
        "0.00",
        "0.00",
    )
    assert row["A"] == row["B"] == f"{100 * fmean(score_of(runs[0])):.2f}"
    undecided = rows_of(compare(*runs))["egoplan_val"]["Verdict"]
    needed = int(
        re.fullmatch(r"undecided; about ([\d,]+) questions would be needed", undecided)[1].replace(
            ",", ""
        )
    )
    assert needed > COUNT


def test_scores_and_difference_are_those_of_the_samples(tmp_path):
    runs = [written(tmp_path / name, answers(share)) for name, share in (("a", 0.3), ("b", 0.8))]
    first, second = map(score_of, runs)
    row = rows_of(compare(*runs))["egoplan_val"]
    assert row["Verdict"] == "different"
    assert float(row["A"]) == pytest.approx(100 * fmean(first), abs=0.006)
    assert float(row["A - B"]) == pytest.approx(100 * (fmean(first) - fmean(second)), abs=0.006)
    assert float(row["Low"]) < 100 * (fmean(first) - fmean(second)) < float(row["High"])
    exchanged = rows_of(compare(*reversed(runs)))["egoplan_val"]
    assert (exchanged["A"], exchanged["B"], exchanged["Verdict"]) == (
        row["B"],
        row["A"],
        "different",
    )


def test_points_are_per_cent_of_the_highest_score(tmp_path):
    tasks = {"actplan": actplan_answers(12, 0.7), **egothink_bench(3, 0.5)}
    rows = rows_of(compare(*(written(tmp_path / name, tasks) for name in "ab")))
    assert all(1 < float(rows[task]["A"]) < 100 for task in ("actplan", "egothink_bench"))
    assert rows["egothink_bench"]["Questions"] == "36"


def test_runs_of_both_harnesses_are_compared(tmp_path):
    runs = [written(tmp_path / harness, all_tasks(), harness) for harness in HARNESSES]
    result = compare(*runs)
    rows = rows_of(result)
    assert {"egoplan_val", "egothink_bench", "egointent", "actplan"} <= rows.keys()
    assert "not comparable" not in result.stdout
    assert "harness: lmms-eval → lm-eval" in result.stdout


def test_prompts_of_both_harnesses_are_compared(tmp_path):
    """Before the chat template, or as far as lm-eval's prompt after it contains the other."""
    runs = [
        written(tmp_path / harness, {GENERATED: egoplan_replies(COUNT, 0.6, 1)}, harness)
        for harness in HARNESSES
    ]
    edit_samples(runs[0], lambda x: with_options(x, (0, 1, 2, 3)))

    def verdict_of(order, form="{}"):
        edit_samples(
            runs[1], lambda x: with_options(x, order) or x.update(asked=form.format(sent(x)))
        )
        result = compare(*runs, "--margin", 20)
        return rows_of(result, is_comparable=result.exit_code == 0)[GENERATED][
            "Verdict"
        ], result.stdout

    def sent(sample):
        return next(iter(sample["arguments"].values()))["arg_0"]

    marked = "<image>\n<|vision_start|><|image_pad|><|vision_end|>{}"
    verdict, output = verdict_of((0, 1, 2, 3), marked)
    assert verdict == "equal within 20 points"
    assert "compared only in part" not in output
    for form in ("{}", marked):
        verdict, output = verdict_of((2, 0, 1, 3), form)
        assert verdict == "not comparable"
        assert f"the order of options differs for {COUNT} questions" in output
    verdict, output = verdict_of((0, 1, 2, 3), "{} Think step by step.")
    assert verdict == "not comparable"
    assert f"prompts differ for {COUNT} questions" in output
    edit_samples(
        runs[1],
        lambda x: prompt_of(x, "USER: {} Think step by step. ASSISTANT:".format) or x.pop("asked"),
    )
    assert "prompts were compared only in part" in compare(*runs).stdout


@pytest.mark.parametrize("has_samples", [True, False])
def test_other_versions_have_no_verdict(tmp_path, has_samples):
    runs = [
        write_run(tmp_path / name, "lmms-eval", "org/m", answers(), log_samples=has_samples).parent
        for name in "ab"
    ]

    def edit(content):
        content["versions"]["egoplan_val"] = content["configs"]["egoplan_val"]["metadata"][
            "version"
        ] = 0.9

    edit_results(runs[1], edit)
    result = compare(*runs, "--margin", 20)
    row = rows_of(result, is_comparable=False)["egoplan_val"]
    assert (row["Verdict"], row["p"]) == ("not comparable", "-")
    assert re.search(r"egoplan_val is not comparable: .*0\.9", result.stdout)


def prompt_of(sample, change):
    """Change the prompt of a logged sample."""
    if "input" in sample:
        sample["input"] = change(sample["input"])
    else:
        for argument in sample["arguments"].values():
            argument["arg_0"] = change(argument["arg_0"])


@pytest.mark.parametrize("harness", HARNESSES)
def test_other_prompts_are_counted_and_named_and_have_no_verdict(tmp_path, harness):
    runs = [written(tmp_path / name, answers(), harness) for name in "ab"]

    def edit(sample):
        if sample["doc_id"] in (3, 5):
            prompt_of(sample, lambda prompt: f"{prompt} Think first.")

    edit_samples(runs[0], edit)
    result = compare(*runs, "--margin", 20)
    assert rows_of(result, is_comparable=False)["egoplan_val"]["Verdict"] == "not comparable"
    assert "prompts differ for 2 questions (4 and 6)" in result.stdout
    assert "egoplan_val" in result.stderr


GENERATED = "egoplan_val_generate"
OPTIONS = ["A. pour", "B. cut", "C. wash", "D. take"]


def of_task(**changes):
    """Return an edit of the configuration of each task. A mapping is merged."""

    def edit(content):
        for config in content["configs"].values():
            for name, value in changes.items():
                config[name] = config.get(name, {}) | value if isinstance(value, dict) else value

    return edit


def with_options(sample, order):
    letters = [
        f"{letter}. {OPTIONS[index][3:]}" for letter, index in zip("ABCD", order, strict=True)
    ]
    prompt_of(sample, lambda _: "\n".join(["What next?", *letters]))


def sampled(temperature):
    return of_task(
        generation_kwargs={
            "max_new_tokens": 16,
            "do_sample": temperature > 0,
            "temperature": temperature,
        }
    )


# Harness, edits of results and of samples of the first and of the second run, and what is named.
INCOMPARABLE = {
    "all prompts": (
        "lmms-eval",
        {},
        {1: lambda x: prompt_of(x, str.upper)},
        f"prompts differ for {COUNT} questions",
    ),
    "order of options": (
        "lmms-eval",
        {},
        {0: lambda x: with_options(x, (0, 1, 2, 3)), 1: lambda x: with_options(x, (2, 0, 1, 3))},
        f"the order of options differs for {COUNT} questions",
    ),
    "text in angle brackets": (
        "lmms-eval",
        {},
        {
            number: lambda x, tag=tag: prompt_of(x, f"{{}} <{tag}>".format)
            for number, tag in enumerate(("answer", "b"))
        },
        f"prompts differ for {COUNT} questions",
    ),
    "text between comparison signs": (
        "lmms-eval",
        {},
        {run: lambda x, run=run: prompt_of(x, lambda _: f"x < {run} and y > 2?") for run in (0, 1)},
        f"prompts differ for {COUNT} questions",
    ),
    "order of candidates": (
        "lm-eval",
        {},
        {1: lambda x: x["doc"]["choices"].reverse()},
        f"the order of options differs for {COUNT} questions",
    ),
    "right answers": (
        "lmms-eval",
        {},
        {1: lambda x: x.update(target="ABCD"["ABCD".index(x["target"]) - 1])},
        f"right answer differ for {COUNT} questions",
    ),
    "prepared data": (
        "lmms-eval",
        {0: of_task(metadata={"data": "a" * 64}), 1: of_task(metadata={"data": "b" * 64})},
        {},
        "prepared data (fingerprints aaaaaaaaaaaa and bbbbbbbbbbbb)",
    ),
    "prepared data in lm-eval": (
        "lm-eval",
        {},
        {1: lambda x: x["doc"].update(data="b" * 64)},
        "and bbbbbbbbbbbb",
    ),
    "decoding": ("lmms-eval", {0: sampled(0), 1: sampled(0.7)}, {}, "temperature 0 and 0.7"),
    "sampling": (
        "lmms-eval",
        {
            number: of_task(
                generation_kwargs={"do_sample": True, "temperature": 0.7, "top_p": share}
            )
            for number, share in enumerate((0.9, 1))
        },
        {},
        "top_p 0.9 and 1",
    ),
    "system instruction": (
        "lmms-eval",
        {1: lambda content: content.update(system_instruction="Be brief.")},
        {},
        "system instructions none and Be brief.",
    ),
    "system instruction in lm-eval": (
        "lm-eval",
        {1: lambda content: content.update(system_instruction="Be brief.")},
        {},
        "system instructions none and Be brief.",
    ),
    "prompt among the arguments": (
        "lmms-eval",
        {
            1: lambda content: content["config"].update(
                model_args="pretrained=org/m,system_prompt=Be brief, please,n=1"
            )
        },
        {},
        "system_prompt=Be brief, please",
    ),
    "chat template of one model": (
        "lmms-eval",
        {
            number: lambda content, number=number: content.update(
                record={"processor": {"chat_template_sha256": f"{number}" * 64}}
            )
            for number in (0, 1)
        },
        {},
        "chat templates 000000000000 and 111111111111",
    ),
}


def test_what_must_be_equal_is_named_and_has_no_verdict(tmp_path):
    failures = []
    for name, (harness, of_results, of_samples, expected) in INCOMPARABLE.items():
        tasks = {GENERATED: egoplan_replies(COUNT, 0.6, 1)}
        runs = [written(tmp_path / name / run, tasks, harness) for run in "ab"]
        for number, run in enumerate(runs):
            edit_results(run, of_results.get(number, lambda _: None))
            edit_samples(run, of_samples.get(number, lambda _: None))
        result = compare(*runs, "--margin", 20)
        reasons = [
            line
            for line in result.stdout.splitlines()
            if line.startswith(f"{GENERATED} is not comparable: ")
        ]
        verdict = rows_of(result, is_comparable=False)[GENERATED]["Verdict"]
        if (verdict, len(reasons)) != ("not comparable", 1) or expected not in reasons[0]:
            failures.append((name, verdict, reasons))
    assert not failures


def test_greedy_decoding_is_the_same_however_it_is_written(tmp_path):
    run = written(tmp_path / "a", {GENERATED: egoplan_replies(COUNT, 0.6, 1)})
    edit_results(run, of_task(generation_kwargs={"max_new_tokens": 16}))
    failures = []
    for number, arguments in enumerate(
        [
            {"do_sample": False},
            {"temperature": 0},
            {"do_sample": False, "temperature": 0.0, "top_p": 1.0, "top_k": 50},
            {"temperature": None, "top_p": None, "num_beams": 1, "until": []},
        ]
    ):
        other = written(
            tmp_path / str(number), {GENERATED: egoplan_replies(COUNT, 0.6, 1)}, "lmms-eval"
        )
        edit_results(other, of_task(generation_kwargs={"max_new_tokens": 16} | arguments))
        failures += [arguments] if compare(run, other, "--margin", 20).exit_code else []
    assert not failures


def test_a_report_has_no_verdict_on_runs_that_are_not_comparable(tmp_path):
    """Nor a difference in its finding, a rank among them, or a change of one model."""
    for name in "ab":
        run = written(
            tmp_path / name, {GENERATED: egoplan_replies(COUNT, 0.9 if name == "a" else 0.2, 1)}
        )
        edit_results(
            run, lambda content, name=name: content.update(system_instruction=f"Be {name}.")
        )
    (egoplan,) = (benchmark for benchmark in BENCHMARKS if benchmark.name == "egoplan")
    report = report_class(egoplan.name)(read_runs([tmp_path]).runs)
    (difference,) = report.differences
    assert difference.why == "different system instructions"
    assert {line.rank for line in report.headlines} == {None}
    assert all(f"system instruction Be {name}." in str(report.headlines) for name in "ab")
    assert list(changes_of(report)) == []
    (pairs,) = report.pairs_of_runs()
    row = dict(zip([column.key for column in pairs.columns], pairs.rows[0].values, strict=True))
    assert (row["verdict"], row["p_value"]) == (
        "not comparable: different system instructions",
        None,
    )
    assert "above" not in " ".join(scores_section(report).finding)


def test_the_system_instruction_is_a_setting_that_differs(tmp_path):
    for harness in HARNESSES:
        runs = [written(tmp_path / harness / name, answers(), harness) for name in "ab"]
        edit_results(runs[1], lambda content: content.update(system_instruction="Be brief."))
        differing = compare(*runs).stdout.partition("What else differs:\n")[2].splitlines()
        assert "system instruction: none → Be brief." in differing, harness


@pytest.mark.parametrize("harness", HARNESSES)
def test_model_precision_device_and_batches_may_differ(tmp_path, harness):
    """So may a model's own chat template, which lm-eval's logged prompts contain."""
    runs = [written(tmp_path / name, answers(), harness, model=f"org/{name}") for name in "ab"]

    def edit(content):
        arguments = {"pretrained": "org/b", "dtype": "float16", "attn_implementation": "eager"}
        as_text = ",".join(f"{name}={value}" for name, value in arguments.items())
        content["config"] |= {"model_args": as_text if harness == "lmms-eval" else arguments}
        content["config"] |= {"batch_size": 8, "device": "cuda:1", "model": "another backend"}
        content |= {"chat_template_sha": "b" * 64, "transformers_version": "5.0.0"}
        content["record"] = {
            "processor": {"chat_template_sha256": "b" * 64},
            "model": {"dtype": "float16"},
        }

    edit_results(
        runs[0],
        lambda content: content.update(record={"processor": {"chat_template_sha256": "a" * 64}}),
    )
    edit_results(runs[1], edit)
    for run in runs if harness == "lm-eval" else ():
        template = "[INST] {} [/INST]" if run is runs[0] else "Human: {} Assistant:"
        edit_samples(
            run,
            lambda x, template=template: (
                x.update(asked="What next?") or prompt_of(x, template.format)
            ),
        )
    assert (
        rows_of(compare(*runs, "--margin", 20))["egoplan_val"]["Verdict"]
        == "equal within 20 points"
    )
    if harness == "lm-eval":
        edit_samples(runs[1], lambda x: x.update(asked="What then?"))
        assert f"prompts differ for {COUNT} questions" in compare(*runs).stdout
        for run in runs:
            edit_samples(run, lambda x: x.pop("asked"))
        result = compare(*runs, "--margin", 20)
        assert rows_of(result)["egoplan_val"]["Verdict"] == "equal within 20 points"
        assert "prompts were not compared" in result.stdout


def test_blanks_and_marks_of_images_in_prompts_do_not_count(tmp_path):
    runs = [written(tmp_path / name, answers(), "lm-eval") for name in "ab"]

    def edit(sample):
        for argument in sample["arguments"].values():
            argument["arg_0"] = argument["arg_0"].replace(
                "<image>\n", "<|vision_start|><|image_pad|><|vision_end|> "
            )

    edit_samples(runs[1], edit)
    assert (
        rows_of(compare(*runs, "--margin", 20))["egoplan_val"]["Verdict"]
        == "equal within 20 points"
    )


def test_other_candidates_have_no_verdict(tmp_path):
    runs = [written(tmp_path / name, answers(), "lm-eval") for name in "ab"]

    def edit(sample):
        if sample["doc_id"] == 7:
            wrong = next(
                text for text in sample["doc"]["choices"] if text != sample["doc"]["answer"]
            )
            sample["doc"]["choices"] = [
                text.replace(wrong, "sing") for text in sample["doc"]["choices"]
            ]

    edit_samples(runs[0], edit)
    result = compare(*runs, "--margin", 20)
    assert rows_of(result, is_comparable=False)["egoplan_val"]["Verdict"] == "not comparable"
    assert "candidates differ for 1 question (8)" in result.stdout


def test_other_judges_have_no_verdict(tmp_path):
    runs = [
        written(tmp_path / judge, egothink_bench(3, 0.5, judge=judge)) for judge in ("one", "two")
    ]
    result = compare(*runs)
    assert rows_of(result, is_comparable=False)["egothink_bench"]["Verdict"] == "not comparable"
    assert "judges one and two" in result.stdout


def test_missing_questions_and_scores_are_counted_and_named(tmp_path):
    whole = answers()["egoplan_val"]
    part = Answers(whole.docs[:-3], whole.responses[:-3])
    runs = [
        written(tmp_path / "a", {"egoplan_val": part}),
        written(tmp_path / "b", answers(unscored=0.1)),
    ]
    (path,) = runs[1].glob("*.jsonl")
    unscored = [
        sample["details"]["predictions"]["sample_id"]
        for sample in map(json.loads, path.open())
        if "acc" not in sample
    ]
    assert unscored
    result = compare(*runs)
    shared_unscored = [name for name in unscored if name <= COUNT - 3]
    assert rows_of(result)["egoplan_val"]["Questions"] == str(COUNT - 3 - len(shared_unscored))
    assert f"3 questions ({COUNT - 2}, {COUNT - 1} and {COUNT}) only in B" in result.stdout
    assert f"{len(unscored)} questions ({unscored[0]}, {unscored[1]}" in result.stdout


def test_few_videos_have_no_verdict_and_no_interval(tmp_path):
    row = rows_of(compare(*(written(tmp_path / name, answers(count=14)) for name in "ab")))[
        "egoplan_val"
    ]
    assert (row["Low"], row["High"], row["Verdict"]) == ("-", "-", "none")


def test_a_task_without_samples_is_named(tmp_path):
    tasks = answers() | {"egoplan_val_blind": egoplan_answers(COUNT, 0.5)}
    runs = [written(tmp_path / name, tasks) for name in "ab"]
    for path in runs[1].glob("*samples_egoplan_val_blind*"):
        path.unlink()
    result = compare(*runs)
    row = rows_of(result)["egoplan_val_blind"]
    assert (row["Questions"], row["A"], row["Verdict"]) == ("0", "-", "none")
    assert "no samples of egoplan_val_blind" in result.stderr
    assert "egoplan_val_blind: no samples in B" in result.stdout
    assert "only in A" not in result.stdout


def test_tasks_of_one_run_are_named(tmp_path):
    extra = answers() | {"egoplan_val_blind": egoplan_answers(COUNT, 0.5)}
    result = compare(written(tmp_path / "a", answers()), written(tmp_path / "b", extra))
    assert rows_of(result).keys() == {"egoplan_val"}
    assert "egoplan_val_blind: only in B" in result.stdout
    other = compare(tmp_path / "a", written(tmp_path / "c", {"actplan": actplan_answers(12, 0.7)}))
    assert other.exit_code == 1
    assert "egoplan_val" in other.stderr
    assert "actplan" in other.stderr


def test_the_settings_that_differ_are_listed(tmp_path):
    runs = [written(tmp_path / name, answers()) for name in "ab"]
    for number, run in enumerate(runs):
        pixels = {
            "image_processor": {"max_pixels": 768 * 28 * 28 // (1 + number), "min_pixels": 3136},
            "fps": 2.0,
        }
        lengths = {
            "mean": 812.5 + number,
            "minimum": 790,
            "maximum": 830 + number,
            "not_known": 3 * number,
        }
        images = {"mean": 8.0, "minimum": 8, "maximum": 8, "not_known": 0}
        tokens = {"questions": 210, "tokens": lengths, "images": images}

        def edit(content, number=number, pixels=pixels, tokens=tokens):
            content["config"]["model_args"] = (
                f"pretrained=org/m,dtype={('bfloat16', 'float16')[number]},api_key=secret{number}"
            )
            content["transformers_version"] = f"5.{number}.0"
            content["date"] = f"2026010{1 + number}_120000"
            content["record"] = {
                "processor": pixels,
                "tasks": {"egoplan_val": tokens, "other": {"tokens": number}},
            }
            content["configs"]["egoplan_val"]["generation_kwargs"] = {
                "max_new_tokens": 16 + number,
                "temperature": 0,
            }

        edit_results(run, edit)
    lines = compare(*runs).stdout.partition("What else differs:\n")[2].splitlines()
    text = "\n".join(lines)
    assert "record.processor.image_processor.max_pixels: 602112 → 301056" in lines
    assert (
        "tokens per question: mean 812.5, 790 to 830 → mean 813.5, 790 to 831; not "
        "known: 3 (egoplan_val)"
    ) in lines
    assert "generation_kwargs.max_new_tokens: 16 → 17 (egoplan_val)" in lines
    assert "dtype=bfloat16" in text
    assert "transformers 5.0.0" in text
    assert not re.search("secret|min_pixels|temperature|images|fps|started|other", text)


LIMITS = {
    "image": {"min": 3136, "max": 1003520},
    "video": {"min_video": 4096, "max_video": 25165824},
}
BY_FRAME = {"video": {"min_video": 4096, "max_frame": 786432}}
OBJECTIONS = {
    "equal": ({"requested": {}}, "org/m", None),
    "requested": (
        {"requested": {"max_pixels": 602112}, "image": {"min": 3136, "max": 602112}},
        "org/m",
        "max_pixels 602,112",
    ),
    "another version's default": ({"requested": {}, **BY_FRAME}, "org/m", "max_frame 786,432"),
    "another model's default": ({"requested": {}, **BY_FRAME}, "org/other", None),
    "given to another model": (
        {"requested": {"max_pixels": 602112}, **BY_FRAME},
        "org/other",
        "max_pixels 602,112",
    ),
}


@pytest.mark.parametrize("name", OBJECTIONS)
def test_runs_with_other_limits_on_pixels_are_not_compared(tmp_path, name):
    """Models have their own limits by default, but two runs of one model must have equal ones."""
    changes, model, objection = OBJECTIONS[name]
    runs = [written(tmp_path / "a", answers()), written(tmp_path / "b", answers(), model=model)]
    for run, pixels in zip(runs, (LIMITS | {"requested": {}}, LIMITS | changes), strict=True):
        edit_results(run, lambda content, pixels=pixels: content.update(record={"pixels": pixels}))
    result = compare(*runs)
    verdict = rows_of(result, is_comparable=objection is None)["egoplan_val"]["Verdict"]
    assert (verdict == "not comparable") is (objection is not None)
    reasons = [line for line in result.stdout.splitlines() if "is not comparable: " in line]
    assert len(reasons) == (objection is not None)
    assert all(objection in reason for reason in reasons)


def test_a_run_without_a_record_is_named(tmp_path):
    runs = [written(tmp_path / name, answers()) for name in "ab"]
    edit_results(runs[0], lambda content: content.update(record={"processor": {"fps": 2}}))
    lines = compare(*runs).stdout.partition("What else differs:\n")[2].splitlines()
    (line,) = lines
    assert line.endswith("not recorded in B")


def test_each_unreadable_run_has_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    result = compare(tmp_path / "missing", tmp_path / "empty")
    assert (result.exit_code, result.stdout) == (1, "")
    assert [str(tmp_path / name) in result.stderr for name in ("missing", "empty")] == [True, True]
    assert "Traceback" not in result.output


def test_a_folder_with_several_runs_is_an_error_that_names_them(tmp_path):
    runs = [written(tmp_path / name, answers(), model=f"org/{name}") for name in ("one", "two")]
    result = compare(tmp_path, runs[0])
    assert result.exit_code == 1
    assert all(str(run) in result.stderr for run in runs)
    assert compare(next(runs[0].glob("*.json")), runs[1]).exit_code == 0


def test_samples_that_contradict_the_results_are_an_error(tmp_path):
    runs = [written(tmp_path / name, answers()) for name in "ab"]
    edit_results(
        runs[1], lambda content: content["results"]["egoplan_val"].update({"acc,none": 0.987})
    )
    result = compare(*runs)
    assert result.exit_code == 1
    assert "0.987" in result.stderr


@pytest.mark.parametrize("margin", ["0", "-1", "nan", "100", "x"])
def test_an_invalid_margin_is_refused(tmp_path, margin):
    assert compare(tmp_path, tmp_path, "--margin", margin).exit_code == 2


def test_control_characters_in_results_are_harmless(tmp_path):
    runs = [written(tmp_path / name, answers(), model=f"org/m{name}") for name in "ab"]
    edit_results(runs[0], lambda content: content.update(model_name="m\x1b[2J[red]"))
    assert "\x1b" not in compare(*runs).stdout


def test_runs_of_one_model_in_several_folders_are_compared_by_name(tmp_path):
    """The runs record no weights, so only their names join them."""
    for folder, model, tasks in (
        ("1", "one", answers(0.6)),
        ("2", "one", egothink_bench(5, 0.6, 1)),
        ("3", "two", answers(0.5, seed=2) | egothink_bench(5, 0.5, 2)),
    ):
        write_run(tmp_path / folder, "lmms-eval", model, tasks)
    names = [f"One={tmp_path / '1'}", f"One={tmp_path / '2'}"]
    result = compare("One", tmp_path / "3", "--name", names[0], "--name", names[1])
    assert rows_of(result).keys() == {"egoplan_val", "egothink_bench"}
    assert str(tmp_path / "1") in result.stdout
    assert str(tmp_path / "2") in result.stdout
