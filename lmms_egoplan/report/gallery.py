"""Write the gallery's files: details of the questions in chunks, and an index for the page."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lmms_egoplan.files import write_whole
from lmms_egoplan.report.document import Item, ShownAnswer
from lmms_egoplan.report.strips import Pictures, script_json, stored_strip, write_strips
from lmms_egoplan.report.tables import clean
from lmms_egoplan.text import counted

# Arguments: kind of work, number of finished items, total.
Progress = Callable[[str, int, int], None]
_CHUNK = 100
# Most characters of a question in the list.
_QUESTION = 400
_LETTERS = {"right": "r", "wrong": "w", "partly": "p", "unscored": "u"}
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Gallery:
    """The page's data about the gallery.

    index: JSON of all questions for a script element, which page.js reads.
    pictured: number of questions with pictures.
    missing: number of questions without pictures, by the reason.
    """

    index: str
    pictured: int
    missing: Mapping[str, int]

    @property
    def pictures(self) -> str:
        """The numbers of questions with and without pictures, and the reasons, in words."""
        total = self.pictured + sum(self.missing.values())
        without = "".join(f"; {count:,} {reason}" for reason, count in self.missing.items())
        return f"{self.pictured:,} of {counted(total, 'questions')} have pictures{without}."


def write_gallery(
    out: Path,
    items: Sequence[Item],
    progress: Progress,
    pictures: Pictures = "all",
    images: Path | None = None,
) -> Gallery:
    """Write ``gallery/`` under `out`.

    Picture strips of an earlier report are always reused.

    Args:
        pictures: questions to draw strips of. ``some`` are the first `SOME` of each benchmark, in
            the order of the gallery, after those on which runs disagree or that all runs get wrong
            (`_is_informative`).
        images: folder of the strips; by default ``gallery/images`` under `out`.

    Raises:
        OSError: the folder is not writable.
    """
    folder = out / "gallery"
    images = images or folder / "images"
    missing = write_strips(images, items, progress, pictures)
    runs = list(dict.fromkeys(name for item in items for name in item.answers))
    run_numbers = {name: number for number, name in enumerate(runs)}
    strips = [stored_strip(images, item) for item in items]
    chunks = range(0, len(items), _CHUNK)
    for number, start in enumerate(chunks):
        details = [
            _details(item, run_numbers, strips[start + i])
            for i, item in enumerate(items[start : start + _CHUNK])
        ]
        write_whole(folder / f"{number}.js", f"reportChunk({number},{script_json(details)});\n")
        progress("questions", min(start + _CHUNK, len(items)), len(items))
    pictured = sum(strip is not None for strip in strips)
    return Gallery(script_json(_index(items, runs, strips)), pictured, missing)


def _index(
    items: Sequence[Item], runs: list[str], strips: list[dict[str, Any] | None]
) -> dict[str, Any]:
    benchmarks = _Numbered()
    facts = _Numbered()
    values: dict[str, _Numbered] = {}
    rows = []
    for item, strip in zip(items, strips, strict=True):
        coded = []
        for name, value in item.facts.items():
            coded += [facts[name], values.setdefault(name, _Numbered())[value]]
        question = clean(item.title or item.question)
        if len(question) > _QUESTION:
            question = f"{question[:_QUESTION]}\u2026"
        verdicts = "".join(
            _LETTERS[item.answers[run].verdict] if run in item.answers else "-" for run in runs
        )
        picture = strip["file"] if strip else 0
        gains = [
            [runs.index(x), *_rounded(y.gain)]
            for x, y in item.answers.items()
            if None not in y.gain
        ]
        rows.append(
            [clean(item.key), question, benchmarks[item.benchmark], coded, verdicts, picture, gains]
        )
    return {
        "chunk": _CHUNK,
        "runs": [clean(run) for run in runs],
        "benchmarks": benchmarks.names(),
        "facts": [[clean(name), values[name].names()] for name in facts],
        "items": rows,
    }


class _Numbered(dict[str, int]):
    """Number texts in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    def names(self) -> list[str]:
        """Return the texts in order, made printable."""
        return [clean(text) for text in self]


def _details(
    item: Item, run_numbers: dict[str, int], strip: dict[str, Any] | None
) -> dict[str, Any]:
    prompts = _distinct(item, lambda answer: answer.prompt)
    tasks = _distinct(item, lambda answer: answer.task)
    return {
        "identity": item.identity,
        "video": None if item.video is None else clean(item.video),
        "question": clean(item.question),
        "choices": [clean(choice) for choice in item.choices],
        "gold": item.gold,
        "references": [[clean(name), clean(text)] for name, text in item.references.items()],
        "prompts": [clean(prompt) for prompt in prompts],
        "tasks": tasks,
        "answers": [
            [run_numbers[name], _answer(answer, prompts, tasks)]
            for name, answer in item.answers.items()
        ],
        "strip": strip,
    }


def _distinct(item: Item, value_of: Callable[[ShownAnswer], _Value | None]) -> list[_Value]:
    """Return the distinct values of the runs' answers, except None."""
    values = [value_of(answer) for answer in item.answers.values()]
    return list(dict.fromkeys(value for value in values if value is not None))


def _answer(
    answer: ShownAnswer, prompts: list[str], tasks: list[tuple[str, str | None]]
) -> dict[str, Any]:
    texts = {
        "text": answer.text,
        "rating": answer.rating,
        "judgement": answer.judgement,
        "reply": answer.reply,
    }
    data: dict[str, Any] = {name: clean(text) for name, text in texts.items() if text is not None}
    if answer.prompt is not None:
        data["prompt"] = prompts.index(answer.prompt)
    if answer.task is not None:
        data["task"] = tasks.index(answer.task)
    if answer.tokens is not None:
        data["tokens"] = list(answer.tokens)
    if answer.chosen is not None:
        data["chosen"] = int(answer.chosen)
    if answer.logprobs is not None:
        data["logprobs"] = _rounded(answer.logprobs)
    if None not in answer.gain:
        data["gain"] = _rounded(answer.gain)
    return data


def _rounded(numbers: Iterable[float | None]) -> list[float | None]:
    return [
        None if number is None or not math.isfinite(number) else round(float(number), 6)
        for number in numbers
    ]
