"""What the commands share that judge stored answers: their options, their judge, and how they end."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.asking import Asking
from lmms_egoplan.judging.json_replies import language_model
from lmms_egoplan.judging.settings import JudgeSettings

Out = Annotated[
    Path,
    typer.Option(
        help="The judged answers to write, as JSON lines. If FILE exists and some answers could not be judged, "
        "FILE.partial is written instead.",
        metavar="FILE",
    ),
]
Concurrency = Annotated[int | None, typer.Option(min=1, max=1000, help="Requests at a time; 32 by default.")]


def judge_for(default_model: str, concurrency: int | None, asking: Asking) -> JudgeSettings:
    """Return the judge that the environment sets.

    Raises:
        LmmsEgoplanError: it sets none, or sets it wrongly.
    """
    settings = language_model(default_model, asking=asking)
    return settings if concurrency is None else replace(settings, concurrency=concurrency)


def written_path(out: Path, unjudged: int) -> Path:
    """Return where judged answers go: incomplete ones do not replace a file that exists."""
    return out.with_name(f"{out.name}.partial") if unjudged and out.exists() else out


def end(written: Path, unjudged: int, total: int, each: str = "") -> None:
    """Name the file that was written.

    Args:
        each: behind "are not judged", such as " in each repeat".

    Raises:
        LmmsEgoplanError: some answers are not judged.
    """
    typer.echo(f"Written to {written}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{unjudged} of {total} answers are not judged{each} ({written} says why). Unless the reason says "
            "otherwise, the same command asks for them again"
        )
