"""EgoThink's answers rated by people (arXiv 2311.15596, sec. 5.2 and appendix G)."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from lmms_egoplan.annotation.clips import KeptImage, MediaFolder
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Label, Labelled, Scale, Stage
from lmms_egoplan.annotation.forms import Choice, Form, Option, Picture, Prose, Values
from lmms_egoplan.benchmarks.egothink import demo
from lmms_egoplan.benchmarks.egothink.answer_files import read_stored, with_questions
from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.labels import PEOPLE
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder
from lmms_egoplan.benchmarks.egothink.splits import PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import shown as quoted

_STAGE = "rate"
_OPTIONS = (Option("0", "0: wrong"), Option("0.5", "0.5: partly right"), Option("1", "1: right"))


def read_items(samples: Sequence[Path], folder: MediaFolder, judged: Sequence[Path] = ()) -> list[Item]:
    """Answers to rate.

    Args:
        samples: what `read_stored` reads; each path has one model's answers, and names it in exports.
        folder: gets the questions' images.
        judged: the same answers with a judge's ratings, which no annotator sees.

    Raises:
        LmmsEgoplanError: a file is wrong, a dimension is not prepared, two paths have one name, or the judge has rated
            none of the answers.
    """
    models = [_model(path) for path in samples]
    if len({*models}) < len(models):
        raise LmmsEgoplanError(f"--items: {', '.join(models)}: each model's answers need a file name of their own")
    ratings = {}
    for answer in (answer for path in judged for answer in read_stored([path])):
        if answer.rating not in (None, *LEVELS):
            levels = ", ".join(f"{level:g}" for level in LEVELS)
            found = quoted(answer.rating)
            raise LmmsEgoplanError(f"{answer.where}: rating: expected {levels} or nothing, found {found}")
        ratings[answer.id, answer.answer] = (answer.judge, answer.rating)
    answers = {model: with_questions(read_stored([path])) for model, path in zip(models, samples, strict=True)}
    needed = {dimension_of(answer.id) for found in answers.values() for answer in found}
    images = {name: _images(name, folder) for name in sorted(needed)}
    items = []
    for model, found in answers.items():
        for answer in found:
            judge, rating = ratings.get((answer.id, answer.answer), (None, None))
            image = images[dimension_of(answer.id)][answer.id]
            items.append(
                _item(answer.id, model, image, answer.question, answer.reference, answer.answer, judge, rating)
            )
    if judged and not num_judged(items):
        raise LmmsEgoplanError(
            f"--judge {', '.join(map(str, judged))}: rates none of the {len(items)} answers of --items; give the file "
            "that `judge egothink` wrote of the same answers"
        )
    return items


def num_judged(items: Sequence[Item]) -> int:
    """Answers with a judge's rating."""
    return sum(item.hidden["rating"] is not None for item in items)


class RatedAnswers(Flow):
    """Answers rated 0, 0.5 or 1, with the model hidden."""

    name = "egothink"
    title = "EgoThink: rate answers"
    guide = (
        "Read the question, look at the picture, and say how far the answer agrees with the reference.",
        "Accuracy: what the answer says is true of the picture, and contradicts neither reference nor common sense.",
        "Completeness: the answer may be worded otherwise than the reference, but has what matters in it, or a sound "
        "alternative.",
        "Logic: the answer follows from what is seen and does not contradict itself.",
        "Grammar: the answer can be understood; slips that change nothing do not count.",
        "0: wrong, or no answer to the question. 0.5: partly right. 1: right.",
        "The four criteria are those of EgoThink's guide for annotators (arXiv 2311.15596, sec. 5.2 and appendix G.2), "
        "in our own words.",
    )
    stages = (Stage(_STAGE, "Rating"),)
    # The raters' mean counts (sec. 5.2); nobody decides instead of them.
    is_adjudicated = False

    def form(self, shown: Mapping[str, Any], earlier: Sequence[Values], order: int) -> Form:
        """The image, the three texts and the rating."""
        return Form(
            (
                Picture("Picture", KeptImage(shown["image"])),
                Prose("Question", shown["question"]),
                Prose("Reference", shown["reference"]),
                Prose("Answer", shown["answer"] or "(The answer is empty.)"),
            ),
            (Choice("rating", "How right is the answer?", _OPTIONS),),
        )

    def scales(self) -> Mapping[str, Scale]:
        """The rating."""
        return {"rating": Scale("Rating", tuple(map(float, LEVELS)), _rating, is_ordered=True)}

    def differ(self, item: Item, labels: Sequence[Values]) -> bool:
        """Whether two ratings are not the same."""
        return len({_rating(values) for values in labels}) > 1

    def remarks(self, labelled: Labelled) -> list[str]:
        """How far the people's means agree with a judge, where its ratings are known."""
        from lmms_egoplan.judging.agreement import MIN_ITEMS, agreement

        pairs = [
            (item.hidden["rating"], fmean(_rating(label.values) for label in labels))
            for item in labelled.items
            if item.hidden["rating"] is not None and len(labels := labelled.of(item, _STAGE)) >= labelled.per_item
        ]
        if not pairs:
            return []
        found = agreement(*zip(*pairs, strict=True), None).pearson
        why = f"fewer than {MIN_ITEMS} answers" if len(pairs) < MIN_ITEMS else "equal ratings only"
        value = f"n/a ({why})" if found is None else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
        return [f"Pearson's r of the judge and the people's mean, over {len(pairs)} answers: {value}"]

    def export(self, labelled: Labelled) -> Export:
        """For each model, CSV that ``agreement --human`` reads: raters, and all of them as one."""
        lines: list[str] = []
        files: dict[str, ExportedFile] = {}
        for model in dict.fromkeys(item.hidden["model"] for item in labelled.items):
            items = [item for item in labelled.items if item.hidden["model"] == model]
            rated = {item.hidden["question"]: labelled.of(item, _STAGE) for item in items}
            made = _of_model(model, rated, labelled)
            lines += made.lines
            files |= made.files
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in _means(labelled))
        return Export(lines, files | {PEOPLE: ExportedFile(text, "the mean of the people, for report")})

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """The set's questions with the answers of two made-up models: one right, one to the next question."""
        records = check_records(read_folder(source / demo.FOLDER))
        answers = {
            "right": [record.answer for record in records],
            "off-by-one": [record.answer for record in records[1:] + records[:1]],
        }
        return [
            _item(record.id, model, folder.keep(record.image).name, record.question, record.answer, answer)
            for model, texts in answers.items()
            for record, answer in zip(records, texts, strict=True)
        ]


FLOW = RatedAnswers()


def _item(
    question_id: str,
    model: str,
    image: str,
    question: str,
    reference: str,
    answer: str,
    judge: str | None = None,
    rating: float | None = None,
) -> Item:
    shown = {"image": image, "question": question, "reference": reference, "answer": answer}
    hidden = {"question": question_id, "model": model, "judge": judge, "rating": rating}
    return Item(f"{question_id} of {model}", shown, hidden, ("judge", "rating"))


def _means(labelled: Labelled) -> list[dict[str, Any]]:
    """The answers that have all of their ratings, with the mean of these."""
    return [
        {"id": item.hidden["question"], "model": item.hidden["model"], "answer": item.shown["answer"]}
        | {"rating": fmean(_rating(label.values) for label in labels)}
        for item in labelled.items
        if len(labels := labelled.of(item, _STAGE)) >= labelled.per_item
    ]


def _of_model(model: str, rated: Mapping[str, list[Label]], labelled: Labelled) -> Export:
    """Cells are empty where a person has not rated; a question with fewer ratings than it needs is in no pool."""
    people = [
        name for name in labelled.people if any(label.person == name for labels in rated.values() for label in labels)
    ]
    if not people:
        return Export([f"{model}: no ratings yet"], {})
    complete = {question: labels for question, labels in rated.items() if len(labels) >= labelled.per_item}
    by_person = [
        [question, *(next((_rating(label.values) for label in labels if label.person == name), "") for name in people)]
        for question, labels in rated.items()
    ]
    by_place = [
        [question, *(_rating(label.values) for label in labels[: labelled.per_item])]
        for question, labels in complete.items()
    ]
    means = [[question, fmean(_rating(label.values) for label in labels)] for question, labels in complete.items()]
    places = [f"rating {number}" for number in range(1, labelled.per_item + 1)]
    tables = {
        "annotators": (people, by_person, "a column for each annotator"),
        "ratings": (places, by_place, "a column for each answer's first, second, ... rating"),
        "pooled": (["people"], means, "the mean of the people"),
    }
    lines = [f"{model}: {len(complete)} of {len(rated)} answers have their {labelled.per_item} ratings"]
    files = {
        f"{model}-{name}.csv": ExportedFile(csv_text([["id", *columns], *rows]), what)
        for name, (columns, rows, what) in tables.items()
        if rows
    }
    return Export(lines, files)


def _rating(values: Values) -> float:
    return float(values["rating"])


def _model(path: Path) -> str:
    return re.sub(r"[^\w.-]+", "_", path.resolve().name.removesuffix(".jsonl"))


def _images(dimension: str, folder: MediaFolder) -> dict[str, str]:
    """By question, the name of its image in the media folder."""
    from datasets import Image

    rows = PREPARED.load(dimension).cast_column("image", Image(decode=False))
    return {row["id"]: folder.keep(row["image"]["bytes"]).name for row in rows}
