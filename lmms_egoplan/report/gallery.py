"""Write the gallery's files: details of the questions in chunks, and an index for the page."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lmms_egoplan.files import write_whole
from lmms_egoplan.report.document import Alignment, AnswerKey, Item, ShownAnswer, ShownPart
from lmms_egoplan.report.strips import Pictures, script_json, stored_strip, write_strips
from lmms_egoplan.report.tables import clean
from lmms_egoplan.text import counted

# Arguments: kind of work, number of finished items, total.
Progress = Callable[[str, int, int], None]
_CHUNK = 100
# Most characters of a question in the list.
_QUESTION = 400
_NO_ANSWER = "-"
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
    models: Sequence[str] = (),
) -> Gallery:
    """Write ``gallery/`` under `out`.

    Picture strips of an earlier report are always reused.

    Args:
        pictures: questions to draw strips of. ``some`` are the first `SOME` of each benchmark, in
            the order of the gallery, after those on which runs disagree or that all runs get wrong
            (`_is_informative`).
        images: folder of the strips; by default ``gallery/images`` under `out`.
        models: names of the report's runs. Their order determines numbers and colours.

    Raises:
        OSError: the folder is not writable.
    """
    folder = out / "gallery"
    images = images or folder / "images"
    missing = write_strips(images, items, progress, pictures)
    columns = _columns(items, models)
    strips = [stored_strip(images, item) for item in items]
    chunks = range(0, len(items), _CHUNK)
    for number, start in enumerate(chunks):
        details = [
            _details(item, columns[item.benchmark], strips[start + i])
            for i, item in enumerate(items[start : start + _CHUNK])
        ]
        write_whole(folder / f"{number}.js", f"reportChunk({number},{script_json(details)});\n")
        progress("questions", min(start + _CHUNK, len(items)), len(items))
    pictured = sum(strip is not None for strip in strips)
    index = _index(items, models, columns, strips)
    return Gallery(script_json(index), pictured, missing)


def _columns(items: Sequence[Item], models: Sequence[str]) -> dict[str, list[AnswerKey]]:
    """Return the runs and tasks with answers, by benchmark.

    They are in the order of the tasks (`Item.tasks`), then of `models`.
    """
    answered: dict[str, dict[AnswerKey, None]] = {}
    tasks: dict[str, dict[str, None]] = {}
    runs = dict.fromkeys(models)
    for item in items:
        answered.setdefault(item.benchmark, {}).update(dict.fromkeys(item.answers))
        tasks.setdefault(item.benchmark, {}).update(dict.fromkeys(item.tasks))
        for run, task in item.answers:
            runs.setdefault(run)
            tasks[item.benchmark].setdefault(task)
    run_order = list(runs)
    columns = {}
    for benchmark, keys in answered.items():
        task_order = list(tasks[benchmark])
        columns[benchmark] = sorted(
            keys, key=lambda key: (task_order.index(key[1]), run_order.index(key[0]))
        )
    return columns


def _index(
    items: Sequence[Item],
    models: Sequence[str],
    columns: Mapping[str, list[AnswerKey]],
    strips: list[dict[str, Any] | None],
) -> dict[str, Any]:
    """Return the page's data about all questions.

    A question has one letter per column of its benchmark, ``-`` without an answer. Gains and
    disputed ratings are rare, and therefore listed by the question's position.
    """
    runs = _Numbered()
    tasks = _Numbered()
    for model in models:
        runs[model]
    benchmarks = _Numbered()
    facts = _Numbered()
    values: dict[str, _Numbered] = {}
    rows = []
    gains: dict[int, list[list[float | None]]] = {}
    disputed: dict[int, list[int]] = {}
    for position, (item, strip) in enumerate(zip(items, strips, strict=True)):
        coded = []
        for name, value in item.facts.items():
            coded += [facts[name], values.setdefault(name, _Numbered())[value]]
        question = clean(item.title or item.question)
        if len(question) > _QUESTION:
            question = f"{question[:_QUESTION]}\u2026"
        verdicts = ""
        for number, key in enumerate(columns[item.benchmark]):
            answer = item.answers.get(key)
            verdicts += _LETTERS[answer.verdict] if answer else _NO_ANSWER
            if answer and None not in answer.gain:
                gains.setdefault(position, []).append([number, *_rounded(answer.gain)])
            if answer and answer.people and answer.people.is_disputed:
                disputed.setdefault(position, []).append(number)
        picture = strip["file"] if strip else 0
        rows.append(
            [clean(item.key), question, benchmarks[item.benchmark], coded, verdicts, picture]
        )
    numbered_columns = [
        [[runs[run], tasks[task]] for run, task in columns[benchmark]] for benchmark in benchmarks
    ]
    return {
        "chunk": _CHUNK,
        "runs": runs.names(),
        "tasks": tasks.names(),
        "benchmarks": benchmarks.names(),
        "columns": numbered_columns,
        "facts": [[clean(name), values[name].names()] for name in facts],
        "items": rows,
        "gains": gains,
        "disputed": disputed,
    }


class _Numbered(dict[str, int]):
    """Number texts in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    def names(self) -> list[str]:
        """Return the texts in order, made printable."""
        return [clean(text) for text in self]


def _details(item: Item, columns: list[AnswerKey], strip: dict[str, Any] | None) -> dict[str, Any]:
    prompts = _distinct(item, lambda answer: answer.prompt)
    tasks = _distinct(item, lambda answer: answer.task)
    return {
        "identity": item.identity,
        "video": None if item.video is None else clean(item.video),
        "question": clean(item.question),
        "choices": [clean(choice) for choice in item.choices],
        "gold": item.gold,
        "references": [[clean(name), clean(text)] for name, text in item.references.items()],
        "golds": [[name, [clean(step) for step in steps]] for name, steps in item.golds.items()],
        "prompts": [clean(prompt) for prompt in prompts],
        "tasks": tasks,
        "answers": [
            [number, _answer(item.answers[key], prompts, tasks)]
            for number, key in enumerate(columns)
            if key in item.answers
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
    return data | _rated_parts(answer)


def _rated_parts(answer: ShownAnswer) -> dict[str, Any]:
    """Return the fields of an answer in parts, of a plan, and of ratings besides the judge's."""
    data: dict[str, Any] = {}
    if answer.parts:
        data["parts"] = [_part(part) for part in answer.parts]
    if answer.steps is not None:
        data["steps"] = [clean(step) for step in answer.steps]
        data["alignments"] = [_alignment(alignment) for alignment in answer.alignments]
    if answer.people is not None:
        data["people"] = clean(answer.people.text)
        data["disputed"] = answer.people.is_disputed
    if answer.is_demo:
        data["demo"] = True
    return data


def _part(part: ShownPart) -> dict[str, Any]:
    return {
        "name": clean(part.name),
        "text": None if part.text is None else clean(part.text),
        "rating": clean(part.rating),
        "judgement": None if part.judgement is None else clean(part.judgement),
    }


def _alignment(alignment: Alignment) -> dict[str, Any]:
    return {
        "gold": alignment.gold,
        "length": alignment.length,
        "steps": alignment.steps,
        "norm": round(alignment.norm, 6),
        "pairs": alignment.pairs,
    }


def _rounded(numbers: Iterable[float | None]) -> list[float | None]:
    return [
        None if number is None or not math.isfinite(number) else round(float(number), 6)
        for number in numbers
    ]
