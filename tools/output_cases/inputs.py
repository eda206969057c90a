"""Inputs that several cases share: prepared sets, answers, and a scripted judge."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIMENSIONS = (
    "activity",
    "affordance",
    "assistance",
    "attribute",
    "comparison",
    "counting",
    "existence",
    "forecasting",
    "location",
    "navigation",
    "situated",
    "spatial",
)
# Of scripted servers: keys of replies and records of runs contain the address.
PORT = 28713
THOUGHTS = "thoughts.jsonl"
INTENTS = "intents.jsonl"


def demo_sets() -> list[Any]:
    """Return the demo's sets of the tree that is imported, which may be an older one."""
    try:
        from lmms_egoplan.benchmarks.base import DEMO_SETS
    except ModuleNotFoundError:
        from lmms_egoplan.benchmarks.registry import DEMO_SETS

    return [*DEMO_SETS.values()]


def prepare_sets() -> None:
    """Copy and prepare the demo's sets in the current folder, with a tiny model and an encoder."""
    from typer.testing import CliRunner

    from lmms_egoplan.cli import app
    from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
    from lmms_egoplan.demo.sets import copy_set

    os.environ["LMMS_EGOPLAN_DATA"] = str(Path("data").resolve())
    write_checkpoint(Path("checkpoint"))
    write_encoder(Path("tiny-encoder"))
    os.environ["LMMS_EGOPLAN_ENCODER"] = str(Path("tiny-encoder").resolve())
    for demo_set in demo_sets():
        copy_set(demo_set, Path())
        result = CliRunner().invoke(app, ["data", "prepare", *demo_set.prepare])
        assert result.exit_code == 0, result.output


def thought_ids() -> list[str]:
    """Return the ids of the demo's questions of EgoThink."""
    return [f"{dimension}/{number}" for dimension in DIMENSIONS for number in (1, 2)]


def write_answers() -> None:
    """Write answers to the demo's questions of EgoThink and EgoIntent."""
    write_lines(THOUGHTS, [{"id": key, "answer": f"I see {key}, ½."} for key in thought_ids()])
    steps = Path("egointent-steps/steps.jsonl").read_text(encoding="utf-8").splitlines()
    keys = [json.loads(line)["step_id"] for line in steps]
    names = ("local_intent", "procedural_intent", "next_step")
    rows = []
    for key in keys:
        reply = json.dumps({name: f"{name} of {key}" for name in names})
        rows.append({"step_id": key, "answer": reply})
    write_lines(INTENTS, rows)


def write_lines(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write JSON Lines."""
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")


@contextmanager
def scripted_judge(model: str, *, always_rates: bool = False) -> Iterator[Any]:
    """Serve a judge whose replies depend on the prompt alone, and select it.

    Some replies have no rating, unless it always rates.
    """
    from judge_server import JudgeServer, Reply

    def reply(prompt: str, _: int) -> Any:
        number = sum(prompt.encode())
        if "[[0.5]]" in prompt or "[[rating]]" in prompt.lower():
            return Reply(f"A reason. Rating: [[{(0, 0.5, 1)[number % 3]}]]")
        if number % 7 == 0 and not always_rates:
            return Reply("No rating.")
        return Reply(f"A reason.\n[[{number % 6}]]")

    with JudgeServer(reply, PORT) as server:
        os.environ["LMMS_EGOPLAN_JUDGE_BASE_URL"] = server.url
        os.environ["LMMS_EGOPLAN_JUDGE_API_KEY"] = "sk-key-of-the-comparison"
        os.environ["LMMS_EGOPLAN_JUDGE_MODEL"] = model
        yield server
