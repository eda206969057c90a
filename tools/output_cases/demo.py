"""The demo's sets in both harnesses, and the commands that read their results."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from output_cases.commands import Commands
from output_cases.inputs import (
    INTENTS,
    PORT,
    THOUGHTS,
    prepare_sets,
    scripted_judge,
    thought_ids,
    write_answers,
    write_lines,
)
from output_cases.store import store_folder, store_text

_SAMPLES = "demo/results"
_GOOD, _POOR, _RANDOM = "scripted-good", "scripted-poor", "random-weights"


def run_demo() -> None:
    """Run the demo and store its files. Read its results with other commands."""
    commands = Commands("commands")
    commands.start("demo", "--out", "demo")
    store_folder("demo", Path("demo"))
    os.environ["LMMS_EGOPLAN_DATA"] = str(Path("demo/data").resolve())
    os.environ["LMMS_EGOPLAN_ENCODER"] = str(Path("demo/encoder").resolve())
    commands.run("data", "status")
    for form in ("text", "md", "latex", "csv"):
        commands.run("show", _SAMPLES, "--format", form)
    commands.run("show", f"{_SAMPLES}/{_GOOD}")
    for margin in ("1", "30"):
        commands.run("compare", f"{_SAMPLES}/{_GOOD}", f"{_SAMPLES}/{_POOR}", "--margin", margin)
    commands.run("compare", f"{_SAMPLES}/{_RANDOM}", f"{_SAMPLES}/{_RANDOM}")
    _report(
        commands, f"{_SAMPLES}/{_GOOD}", f"{_SAMPLES}/{_POOR}", "--name", f"Good={_SAMPLES}/{_GOOD}"
    )
    _submit(commands)
    _check(commands)
    for benchmark, training in (
        ("egoplan", "demo/egoplan/EgoPlan_validation.json"),
        ("egoplan_bench2", "demo/egoplan/EgoPlan_validation.json"),
        ("egointent", "demo/egointent-steps/steps.jsonl"),
    ):
        out = f"audit-{benchmark}"
        commands.run("audit", benchmark, "--training", training, "--out", out)
        if Path(out).exists():
            store_folder(out, Path(out))
    _prepare_otherwise(commands)


def _report(commands: Commands, *arguments: str) -> None:
    """Report on results as if no answer came from the demo, so that every score is shown."""
    for path in Path(_SAMPLES).rglob("*.json*"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("rendered scenes", "official").replace("scripted-judge", "org/judge")
        path.write_text(text.replace('"scripted"', '"hf_vlm"'), encoding="utf-8")
    commands.run("report", *arguments, "--out", "report", "--pictures", "none")
    store_folder("report", Path("report"))
    commands.run("show", _SAMPLES)


def _submit(commands: Commands) -> None:
    (samples,) = Path(_SAMPLES, _GOOD).glob("*_samples_egoplan_val.jsonl")
    commands.run("submit", "egoplan", samples, "--split", "val", "--out", "submission.json")
    (plans,) = Path(_SAMPLES, _GOOD).glob("*_samples_actplan.jsonl")
    commands.run("score", "actplan", plans, "--out", "scores.json")
    for name in ("submission.json", "scores.json"):
        if Path(name).exists():
            store_text(name, Path(name).read_text(encoding="utf-8"))


def _check(commands: Commands) -> None:
    """Check runs, and print what they ask."""
    judge = {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"}
    for harness in ("lmms-eval", "lm-eval"):
        commands.run(
            *("run", f"demo/{_RANDOM}", "--benchmarks", "egoplan,egothink,egointent,actplan"),
            *("--harness", harness, "--check", "--model-args", "dtype=float32"),
            **judge,
        )
    commands.run("run", f"demo/{_RANDOM}", "--protocol", "official", "--check", **judge)
    commands.run("run", f"demo/{_RANDOM}", "--benchmarks", "egoplan", "--questions", "9", "--check")
    commands.run(
        *("sensitivity", "egoplan_bench2", f"demo/{_RANDOM}", "--questions", "6", "--check"),
    )


def _prepare_otherwise(commands: Commands) -> None:
    """List, cut and prepare the sets with other options."""
    annotations = "demo/egoplan/EgoPlan_validation.json"
    media = ("--epic-kitchens", "demo/egoplan/epic-kitchens", "--ego4d", "demo/egoplan/ego4d")
    commands.run("data", "list", "egoplan", annotations, "--out", "ids.txt")
    commands.run(
        "data",
        "list",
        "egoplan_bench2",
        "demo/egoplan-bench2/EgoPlan-Bench2.json",
        "--out",
        "ids2.txt",
    )
    commands.run(
        "data", "list", "egointent", "demo/egointent-steps/steps.jsonl", "--out", "ids3.txt"
    )
    commands.run("data", "cut", "egoplan", annotations, "--split", "val", *media, "--out", "clips")
    for name in ("ids.txt", "ids2.txt", "ids3.txt"):
        if Path(name).exists():
            store_text(name, Path(name).read_text(encoding="utf-8"))
    if Path("clips").exists():
        store_folder("clips", Path("clips"))
    other = {"LMMS_EGOPLAN_DATA": str(Path("other").resolve())}
    shutil.rmtree("demo/egoplan/ego4d")
    commands.run("data", "prepare", "egoplan", annotations, "--split", "val", *media, **other)
    commands.run("data", "prepare", "egoplan", annotations, "--split", "test", *media, **other)
    commands.run("data", "status", **other)
    store_folder("other", Path("other"))


def run_lm_eval() -> None:
    """Run the tasks in lm-eval with a tiny model, and read the results."""
    prepare_sets()
    commands = Commands("commands")
    tasks = "egoplan_val,egoplan_val_generate,egothink_bench,egointent,actplan_text_only"
    for model, selected in (("hf-vlm-ranker", tasks), ("dummy", "egoplan_val_blind")):
        commands.start(
            *("lm-eval", "--include_path", _tasks_folder(), "--tasks", selected, "--model", model),
            *("--model_args", "pretrained=checkpoint,dtype=float32", "--apply_chat_template"),
            *("--gen_kwargs", "max_gen_toks=6", "--limit", "2", "--batch_size", "4"),
            *("--device", "cpu", "--output_path", f"runs/{model}", "--log_samples"),
            LMMS_EGOPLAN_JUDGE_MODEL="demo",
        )
    store_folder("runs", Path("runs"))
    _store_summary()
    commands.run("show", "runs")
    commands.run("report", "runs", "--out", "report", "--pictures", "none")
    store_folder("report", Path("report"))
    commands.run("plan", "video", "--model", "checkpoint", "--limit", "2", "--out", "episodes")
    if Path("episodes").exists():
        store_folder("episodes", Path("episodes"))


def _store_summary() -> None:
    """Store the summary with the fingerprint that runs contain (`normalise.fingerprints`)."""
    summary = Path("data/egoplan/val/summary.json")
    store_text(str(summary), summary.read_text(encoding="utf-8"))


def _tasks_folder() -> str:
    from lmms_egoplan.paths import LM_EVAL_TASKS

    return str(LM_EVAL_TASKS)


def judge_answers() -> None:
    """Judge answers to all benchmarks' questions, and compare judges with people."""
    prepare_sets()
    shutil.rmtree("checkpoint")
    write_answers()
    write_lines("plans.jsonl", _plans())
    commands = Commands("commands")
    commands.run("score", "actplan", "plans.jsonl", "--out", "scores.json")
    Path("prices.json").write_text('{"org/first": {"input": 2.5, "output": 10}}')
    with scripted_judge("org/first") as server:
        for benchmark, answers in (("egothink", THOUGHTS), ("egointent", INTENTS)):
            _judge(commands, benchmark, answers)
        for protocol in ("authors", "lmms-eval-0.7.3"):
            out = ("--out", f"{protocol}.jsonl")
            commands.run("judge", "egothink", THOUGHTS, "--protocol", protocol, *out, *_IN_ORDER)
        commands.run(
            *("judge", "egothink", THOUGHTS, "--repeats", "2", "--out", "repeats.jsonl"),
            *_IN_ORDER,
        )
        commands.run(
            *("judge", "egothink", THOUGHTS, "--out", "second.jsonl", *_IN_ORDER),
            LMMS_EGOPLAN_JUDGE_MODEL="org/second",
        )
        commands.run("judge", "actplan", "plans.jsonl", "--out", "marked", *_IN_ORDER)
        bodies = sorted({json.dumps(body, sort_keys=True) for body in server.bodies})
    store_text("requests.txt", "\n".join(bodies))
    _agree(commands)
    judged = [path.name for path in sorted(Path().glob("*.jsonl")) if path.name not in _INPUTS]
    commands.run("show", *judged)
    commands.run("show", *judged, "--format", "csv")
    commands.run("report", *judged, "--out", "report", "--pictures", "none")
    store_folder("files", Path())


# The first replies, from which the cost of the rest is expected, depend on the order.
_IN_ORDER = ("--concurrency", "1")
_INPUTS = (THOUGHTS, INTENTS, "plans.jsonl")


def _plans() -> list[dict[str, Any]]:
    """Return plans for the first instances, with people's labels: right, short, empty, numbered."""
    from lmms_egoplan.demo import DATA

    replies = json.loads((DATA / "scripted-good/replies.json").read_text(encoding="utf-8"))
    plans = []
    for number, (instance, right) in enumerate(list(replies["actplan"].items())[:6]):
        steps = right.splitlines()
        texts = (right, "\n".join(steps[2:]), "", "\n".join(f"1. {step}" for step in steps))
        plans.append(
            {
                "id": instance,
                "candidate": texts[number % 4],
                "references": [right, "open(door)\ngrab(cup)"],
                "correct": int(number % 4 == 0),
                "commonsense": 1,
            }
        )
    return plans


def _judge(commands: Commands, benchmark: str, answers: str) -> None:
    arguments = ("judge", benchmark, answers, "--out", f"{benchmark}.jsonl")
    commands.run(*arguments, "--estimate")
    commands.run(*arguments, "--estimate", "--prices", "prices.json")
    commands.run(*arguments, "--max-requests", "5", "--concurrency", "1")
    commands.run(*arguments, "--concurrency", "1", "--prices", "prices.json")
    commands.run(*arguments, "--concurrency", "1", "--retry-rejected")


def _agree(commands: Commands) -> None:
    """Compare judges with each other and with people, whose ratings are a pattern."""
    rows = ["id,first,second"]
    for number, key in enumerate(thought_ids()):
        rows.append(f"{key},{(0, 0.5, 1)[number % 3]},{(1, 0.5)[number % 2]}")
    Path("human.csv").write_text("\n".join(rows) + "\n")
    judged = ("authors.jsonl", "second.jsonl")
    commands.run("agreement", "egothink", *judged)
    commands.run("agreement", "egothink", *judged, "--human", "human.csv", "--out", "agreement.csv")


def vary_protocol() -> None:
    """Measure the sensitivity of a scripted model's score."""
    from judge_server import JudgeServer, Reply

    prepare_sets()

    def reply(prompt: str, _: int) -> Any:
        letter = "ABCD"[sum(prompt.encode()) % 4]
        return Reply(
            (f"{letter}", f"The answer is {letter}.", f"\\boxed{{{letter}}}")[len(prompt) % 3]
        )

    commands = Commands("commands")
    with JudgeServer(reply, PORT) as server:
        for benchmark in ("egoplan", "egoplan_bench2"):
            commands.start(
                *("sensitivity", benchmark, "org/model", "--questions", "6"),
                *("--backend", "async_openai", "--out", f"varied-{benchmark}"),
                *("--model-args", f"base_url={server.url},max_retries=1,num_cpus=2"),
                OPENAI_API_KEY="none",
            )
        bodies = sorted({json.dumps(body, sort_keys=True) for body in server.bodies})
    store_text("requests.txt", "\n".join(bodies))
    _store_summary()
    for benchmark in ("egoplan", "egoplan_bench2"):
        if Path(f"varied-{benchmark}").exists():
            store_folder(f"varied-{benchmark}", Path(f"varied-{benchmark}"))
