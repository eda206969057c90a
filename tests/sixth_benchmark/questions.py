"""The toy's published questions: what colour is a picture that has only one?"""

import json
from pathlib import Path

from PIL import Image

# Thing, its colour, and another colour.
THINGS = (
    ("wall", "red", "blue"),
    ("floor", "blue", "green"),
    ("cup", "green", "red"),
    ("plate", "white", "black"),
)


def choices(thing: str) -> list[str]:
    """Return both choices in the order of the prepared data."""
    ((_, answer, wrong),) = (row for row in THINGS if row[0] == thing)
    return sorted([answer, wrong])


def write_questions(folder: Path) -> None:
    """Write the questions and their pictures to a new folder."""
    folder.mkdir()
    lines = []
    for thing, answer, wrong in THINGS:
        Image.new("RGB", (56, 56), answer).save(folder / f"{thing}.png")
        record = {
            "id": thing,
            "image": f"{thing}.png",
            "question": f"What colour is the {thing}?",
            "answer": answer,
            "wrong": wrong,
        }
        lines.append(json.dumps(record))
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
