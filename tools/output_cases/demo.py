"""The demo's sets in both harnesses, and the commands that read their results."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from output_cases.commands import Commands
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
        commands, f"{_SAMPLES}/{_GOOD}", f"{_SAMPLES}/{_POOR}", "--name", f"{_SAMPLES}/{_GOOD}=Good"
    )
    _submit(commands)
    _estimate(commands)
    _prepare_otherwise(commands)


def _report(commands: Commands, *arguments: str) -> None:
    """Report on results as if no answer came from the demo, so that no score is left out."""
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


def _estimate(commands: Commands) -> None:
    """Check runs, and print their estimates and commands."""
    judge = {
        "LMMS_EGOPLAN_JUDGE_MODEL": "demo",
    }
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


def _prepare_sets() -> None:
    """Copy and prepare the demo's sets in the current folder, with a tiny model and an encoder."""
    from typer.testing import CliRunner

    from lmms_egoplan.benchmarks.registry import DEMO_SETS
    from lmms_egoplan.cli import app
    from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
    from lmms_egoplan.demo.sets import copy_set

    write_checkpoint(Path("checkpoint"))
    write_encoder(Path("encoder-of-the-demo"))
    os.environ["LMMS_EGOPLAN_ENCODER"] = str(Path("encoder-of-the-demo").resolve())
    for demo_set in DEMO_SETS.values():
        copy_set(demo_set, Path())
        result = CliRunner().invoke(app, ["data", "prepare", *demo_set.prepare])
        assert result.exit_code == 0, result.output


def run_lm_eval() -> None:
    """Run the tasks in lm-eval with a tiny model, and read the results."""
    _prepare_sets()
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
    commands.run("show", "runs")
    commands.run("report", "runs", "--out", "report", "--pictures", "none")
    store_folder("report", Path("report"))


def _tasks_folder() -> str:
    from lmms_egoplan.paths import LM_EVAL_TASKS

    return str(LM_EVAL_TASKS)


@contextmanager
def _judge(*models: str) -> Iterator[Any]:
    """Serve judges whose ratings depend on the prompt and the model alone, and set the first."""
    from judge_server import JudgeServer, Reply

    def reply(prompt: str, before: int) -> Any:
        number = sum(prompt.encode()) + before
        if "[[" in prompt and "0.5" in prompt:
            return Reply(f"A reason. Rating: [[{(0, 0.5, 1)[number % 3]}]]")
        return Reply(f"A reason.\n[[{number % 6}]]" if number % 7 else "No rating.")

    with JudgeServer(reply) as server:
        os.environ["LMMS_EGOPLAN_JUDGE_BASE_URL"] = server.url
        os.environ["LMMS_EGOPLAN_JUDGE_API_KEY"] = "sk-key-of-the-comparison"
        os.environ["LMMS_EGOPLAN_JUDGE_MODEL"] = models[0]
        yield server


def _write_lines(path: str, rows: list[dict[str, Any]]) -> None:
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")


def judge_answers() -> None:
    """Judge answers to all benchmarks' questions, and compare judges with people."""
    _prepare_sets()
    commands = Commands("commands")
    dimensions = sorted({path.name for path in Path("data/egothink").iterdir() if path.is_dir()})
    store_text("dimensions.txt", "\n".join(dimensions))
    names = (
        "activity affordance assistance attribute comparison counting existence forecasting "
        "location navigation situated spatial"
    ).split()
    ids = [f"{name}/{number}" for name in names for number in (1, 2)]
    _write_lines("thoughts.jsonl", [{"id": key, "answer": f"I see {key}, ½."} for key in ids])
    steps = Path("egointent-steps/steps.jsonl").read_text(encoding="utf-8").splitlines()
    keys = [json.loads(line)["step_id"] for line in steps]
    reply = '{"intent": "cook", "local": "take the egg", "global": "cook", "next": "eat"}'
    _write_lines("steps.jsonl", [{"step_id": key, "answer": f"{key}: {reply}"} for key in keys])
    plans = [
        {"id": f"plan/{number}", "candidate": text, "references": ["grab(cup)\nopen(door)"]}
        for number, text in enumerate(
            ("grab(cup)\nopen(door)", "open(door)", "", "1. Grab the cup.")
        )
    ]
    _write_lines("plans.jsonl", plans)
    commands.run("score", "actplan", "plans.jsonl", "--out", "scores.json")
    with _judge("org/first", "org/second") as server:
        for benchmark, answers in (("egothink", "thoughts.jsonl"), ("egointent", "steps.jsonl")):
            arguments = ("judge", benchmark, answers, "--out", f"{benchmark}.jsonl")
            commands.run(*arguments, "--estimate")
            Path("prices.json").write_text('{"org/first": {"input": 2.5, "output": 10}}')
            commands.run(*arguments, "--estimate", "--prices", "prices.json")
            commands.run(*arguments, "--max-requests", "5", "--concurrency", "1")
            commands.run(*arguments, "--concurrency", "1")
            commands.run(*arguments, "--retry-rejected", "--concurrency", "1")
            commands.run(*arguments[:-1], f"{benchmark}-batch.jsonl", "--batch")
        for protocol in ("paper", "authors", "lmms-eval-0.7.3"):
            out = f"{protocol}.jsonl"
            commands.run(
                "judge", "egothink", "thoughts.jsonl", "--protocol", protocol, "--out", out
            )
        commands.run(
            "judge", "egothink", "thoughts.jsonl", "--repeats", "2", "--out", "repeats.jsonl"
        )
        commands.run(
            *("judge", "egothink", "thoughts.jsonl", "--out", "second.jsonl"),
            LMMS_EGOPLAN_JUDGE_MODEL="org/second",
        )
        commands.run("judge", "actplan", "plans.jsonl", "--out", "errors")
        bodies = sorted(json.dumps(body, sort_keys=True) for body in server.bodies)
    store_text("requests.txt", "\n".join(bodies))
    human = "id,first,second\n" + "".join(
        f"{key},{(0, 0.5, 1)[number % 3]},{(1, 0.5)[number % 2]}\n"
        for number, key in enumerate(ids)
    )
    Path("human.csv").write_text(human)
    judged = ("egothink.jsonl", "second.jsonl")
    commands.run("agreement", "egothink", *judged, "--human", "human.csv", "--out", "agreement.csv")
    commands.run("agreement", "egothink", *judged)
    commands.run("show", "egothink.jsonl", "egointent.jsonl")
    commands.run(
        "report",
        "egothink.jsonl",
        "second.jsonl",
        "repeats.jsonl",
        "egointent.jsonl",
        "--out",
        "report",
    )
    shutil.rmtree("checkpoint")
    store_folder("files", Path())
