"""Rate EgoThink answers with human annotators (arXiv 2311.15596, sec. 5.2 and appendix G)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lmms_egoplan.annotation.clips import KeptImage, MediaFolder
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.flow import (
    Export,
    ExportedFile,
    Flow,
    Item,
    Labelled,
    Scale,
    Stage,
    all_values,
)
from lmms_egoplan.annotation.forms import (
    Choice,
    Contents,
    Earlier,
    Form,
    Option,
    Picture,
    Prose,
    Values,
)
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import read_study
from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.report.egothink.answer_files import PEOPLE, read_stored, with_questions
from lmms_egoplan.stats.agreement import MIN_ITEMS, agreement
from lmms_egoplan.stats.correction import draw
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import quoted

_STAGE = "rate"
# What an answer's stratum may depend on.
_STRATA: dict[str, Callable[[Item], Any]] = {
    "dimension": lambda item: dimension_of(item.hidden["question"]),
    "rating": lambda item: -1 if item.hidden["rating"] is None else item.hidden["rating"],
}
_OPTIONS = (Option("0", "0: wrong"), Option("0.5", "0.5: partly right"), Option("1", "1: right"))


def read_items(
    samples: Sequence[Path], folder: MediaFolder, judged: Sequence[Path] = ()
) -> list[Item]:
    """Read answers to rate.

    Args:
        samples: One path per model, as for `read_stored`. Exports use the path's name as the
            model's name.
        folder: Receives the questions' images.
        judged: The same answers with a judge's ratings, which annotators do not see.

    Raises:
        LmmsEgoplanError: A file is invalid, a dimension is not prepared, two paths have the same
            name, or the judge rated none of the answers.
    """
    models = [
        re.sub(r"[^\w.-]+", "_", path.resolve().name.removesuffix(".jsonl")) for path in samples
    ]
    if len({*models}) < len(models):
        raise LmmsEgoplanError(
            f"Duplicate model names: {', '.join(models)}; give each model's file its own name"
        )
    ratings = _read_ratings(judged)
    answers = []
    for model, path in zip(models, samples, strict=True):
        answers += [(model, answer) for answer in with_questions(read_stored([path]))]
    images = _images({dimension_of(answer.id) for _, answer in answers}, folder)
    items = []
    for model, answer in answers:
        judge, rating = ratings.get((answer.id, answer.answer), (None, None))
        items.append(_item(model, answer, images[answer.id], judge, rating))
    if judged and not num_judged(items):
        raise LmmsEgoplanError(
            f"--judge {', '.join(map(str, judged))}: contains no rating of the {len(items)} "
            "answers; pass the file that `judge egothink` wrote for the same answers"
        )
    return items


def _read_ratings(
    judged: Sequence[Path],
) -> dict[tuple[str, str], tuple[str | None, float | None]]:
    """Read a judge's ratings, with the judge's name, by question and answer.

    Raises:
        LmmsEgoplanError: A file is invalid.
    """
    ratings = {}
    for path in judged:
        for stored in read_stored([path]):
            if not (stored.rating is None or _is_rating(stored.rating)):
                raise LmmsEgoplanError(
                    f"{stored.where}: rating: expected a number from 0 to 1 or nothing, found "
                    f"{quoted(stored.rating)}"
                )
            ratings[stored.id, stored.answer] = (stored.judge, stored.rating)
    return ratings


def check_sampling(sample: int | None, by: str | None, study: str | None) -> None:
    """Check that the options of a random sample fit together.

    Args:
        sample: Number of answers per model; None for all.
        by: See `sample_items`; None for the default.
        study: File or name of a study, as for `read_study`; None without one.

    Raises:
        LmmsEgoplanError: They do not, or the study is invalid.
    """
    if by and sample is None:
        raise LmmsEgoplanError(f"--by {by}: requires --sample, the number of answers to draw")
    if sample and study and (read_study(study).training or read_study(study).gold):
        raise LmmsEgoplanError(
            f"--sample {sample}: not possible with the training or gold items of {study}; drop one"
        )


def choose_items(items: Sequence[Item], sample: int | None, by: str | None, db: Path) -> list[Item]:
    """Return the items that a database contains or, for a new one, all items or a sample.

    Args:
        items: Result of `read_items`.
        sample: Number of answers per model; None for all, or as many as the database contains.
        by: See `sample_items`; None for both strata.
        db: The database, which contains answers if it exists.

    Raises:
        LmmsEgoplanError: As in `same_sample` or `sample_items`, or the database is unusable.
    """
    if db.exists():
        with closing(Store(Database(db), FLOW)) as stored:
            return same_sample(items, stored.items(), sample, db)
    if sample is None:
        return list(items)
    return sample_items(items, sample, by or "dimension,rating")


def num_judged(items: Sequence[Item]) -> int:
    """Return the number of answers with a judge's rating."""
    return sum(item.hidden["rating"] is not None for item in items)


def sample_items(items: Sequence[Item], count: int, by: str) -> list[Item]:
    """Draw a random sample of each model's answers, in which each answer has the same probability.

    See `draw`.

    Args:
        items: Result of `read_items`, in any order.
        count: Number of answers per model.
        by: What strata depend on, joined by commas: ``dimension``, ``rating`` (of the judge), or
            both.

    Returns:
        The drawn items. `Item.hidden` has each answer's ``probability``, and ``planned``, the
        sample's size.

    Raises:
        LmmsEgoplanError: A model has fewer answers, or none of the judge's ratings that `by` needs.
    """
    drawn: list[Item] = []
    for model in dict.fromkeys(item.hidden["model"] for item in items):
        answers = sorted(
            (item for item in items if item.hidden["model"] == model), key=lambda item: item.id
        )
        if count > len(answers):
            raise LmmsEgoplanError(
                f"--sample {count}: {model} has {len(answers)} answers; choose at most that many"
            )
        if "rating" in by and not num_judged(answers):
            raise LmmsEgoplanError(
                f"--by {by}: {model} has no judge's ratings; pass --judge, or use --by dimension"
            )
        strata = [_stratum(item, by) for item in answers]
        sampling = {"probability": count / len(answers), "planned": count}
        for position in draw(strata, count):
            item = answers[position]
            drawn.append(replace(item, hidden={**item.hidden, **sampling}))
    return drawn


def _stratum(item: Item, by: str) -> list[Any]:
    """Return what an answer's stratum depends on."""
    return [_STRATA[name](item) for name in by.split(",")]


def same_sample(
    items: Sequence[Item], stored: Sequence[Item], count: int | None, db: Path
) -> list[Item]:
    """Return the items that a database contains, with their probabilities.

    If the database contains no sample, return all items.

    Args:
        items: Result of `read_items`.
        stored: Items of the database.
        count: Size of the sample as requested; None if the database determines it.
        db: The database, for messages.

    Raises:
        LmmsEgoplanError: The database contains another sample, or none.
    """
    planned = stored[0].hidden.get("planned")
    if count not in (None, planned):
        created = "all answers" if planned is None else f"--sample {planned}"
        raise LmmsEgoplanError(
            f"--sample {count}: {db} was created with {created}, which is fixed; drop --sample"
        )
    known = {item.id: item.hidden for item in (items if planned is None else stored)}
    return [
        replace(item, hidden={**known[item.id], **item.hidden})
        for item in items
        if item.id in known
    ]


class RatedAnswers(Flow):
    """Rate answers 0, 0.5 or 1 without seeing the model's name."""

    name = "egothink"
    title = "EgoThink: rate answers"
    stages = (Stage(_STAGE, "Rating"),)

    def form(
        self, contents: Contents, _earlier: Earlier = (), _order: int = 0, _stage: str = ""
    ) -> Form:
        """Show the image and the three texts. Ask for the rating."""
        return Form(
            (
                Picture("Picture", KeptImage(contents["image"])),
                Prose("Question", contents["question"]),
                Prose("Reference", contents["reference"]),
                Prose("Answer", contents["answer"] or "(The answer is empty.)"),
            ),
            (Choice("rating", "How right is the answer?", _OPTIONS),),
        )

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return the scale of ratings."""
        return [Scale("Rating", LEVELS, _rating, is_ordered=True)]

    def differ(self, _item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether ratings differ."""
        return len({_rating(values) for values in all_values(rounds)}) > 1

    def remarks(self, labelled: Labelled) -> list[str]:
        """Report the correlation of the people's means with a judge, if its ratings exist."""
        ratings = []
        means = []
        for item, mean in _means(labelled):
            if item.hidden["rating"] is not None:
                ratings.append(item.hidden["rating"])
                means.append(mean)
        if not ratings:
            return []
        pearson = agreement(ratings, means, None).pearson
        if pearson:
            value = f"{pearson.value:.3f} [{pearson.low:.3f}, {pearson.high:.3f}]"
        elif len(ratings) < MIN_ITEMS:
            value = f"n/a (fewer than {MIN_ITEMS} answers)"
        else:
            value = "n/a (all ratings are equal)"
        return [
            f"Pearson's r of the judge and the people's mean, over {len(ratings)} answers: {value}"
        ]

    def export(self, labelled: Labelled) -> Export:
        """Export one set of CSV files per model for ``agreement --human``, and the means.

        The files have raters, ratings and their mean.
        """
        lines: list[str] = []
        files: dict[str, ExportedFile] = {}
        for model in dict.fromkeys(item.hidden["model"] for item in labelled.items):
            items = [item for item in labelled.items if item.hidden["model"] == model]
            exported = _export_of_model(model, items, labelled)
            lines += exported.lines
            files |= exported.files
            decided = sum(labelled.adjudicated(item) is not None for item in items)
            if decided:
                lines.append(
                    f"{model}: decided by the lead: {decided}; the paper uses the raters' mean "
                    "(sec. 5.2)"
                )
        records = [_mean_record(item, mean) for item, mean in _means(labelled)]
        files[PEOPLE] = ExportedFile(json_lines(records), "mean ratings, for report")
        return Export(lines, files)

    def demo_items(self, source: Path, folder: MediaFolder) -> list[Item]:
        """Return the set's questions with the answers of two invented models.

        One model answers correctly. The other gives the answer to the next question.
        """
        records = check_records(read_folder(source))
        next_records = records[1:] + records[:1]
        items = []
        for model, answering_records in (("right", records), ("off-by-one", next_records)):
            for record, answering in zip(records, answering_records, strict=True):
                answer = Answer(
                    record.id, record.question, record.answer, answering.answer, truncated=None
                )
                items.append(_item(model, answer, folder.keep(record.image).name))
        return items


FLOW = RatedAnswers()


def _is_rating(value: Any) -> bool:
    return isinstance(value, int | float) and LEVELS[0] <= value <= LEVELS[-1]


def _item(
    model: str, answer: Answer, image: str, judge: str | None = None, rating: float | None = None
) -> Item:
    contents = {
        "image": image,
        "question": answer.question,
        "reference": answer.reference,
        "answer": answer.answer,
    }
    hidden = {"question": answer.id, "model": model, "judge": judge, "rating": rating}
    return Item(f"{answer.id} of {model}", contents, hidden, changing=("judge", "rating"))


def _means(labelled: Labelled) -> list[tuple[Item, float]]:
    """Return the rated answers that have all ratings or the lead's, each with its mean rating.

    The lead's rating replaces the mean.
    """
    means = []
    for item in labelled.items:
        labels = labelled.labels_of(item, _STAGE)
        decision = labelled.adjudicated(item)
        if decision:
            means.append((item, _rating(decision.values)))
        elif len(labels) >= labelled.per_item:
            means.append((item, fmean(_rating(label.values) for label in labels)))
    return means


def _mean_record(item: Item, mean: float) -> dict[str, Any]:
    """Return the line of an answer in the file of mean ratings."""
    return {
        "id": item.hidden["question"],
        "answer": item.contents["answer"],
        "rating": mean,
        "model": item.hidden.get("model"),
        "probability": item.hidden.get("probability"),
        "planned": item.hidden.get("planned"),
    }


def _export_of_model(model: str, items: Sequence[Item], labelled: Labelled) -> Export:
    """Export one model's ratings.

    In the table of annotators, missing ratings are empty cells. The other tables omit unfinished
    questions.
    """
    ratings = {item.hidden["question"]: _ratings_of(item, labelled) for item in items}
    raters = set().union(*ratings.values())
    people = [name for name in labelled.people if name in raters]
    means = [
        [item.hidden["question"], mean]
        for item, mean in _means(labelled)
        if item.hidden["model"] == model
    ]
    if not (people or means):
        return Export([f"{model}: no ratings yet"], {})
    per_item = labelled.per_item
    by_person: list[list[Any]] = []
    complete: list[list[Any]] = []
    for question, row in ratings.items():
        by_person.append([question, *(row.get(name, "") for name in people)])
        if len(row) >= per_item:
            complete.append([question, *[*row.values()][:per_item]])
    files = {}
    if by_person and people:
        files[f"{model}-annotators.csv"] = ExportedFile(
            csv_text([["id", *people], *by_person]), "one column per annotator"
        )
    if complete:
        numbered = [f"rating {number}" for number in range(1, per_item + 1)]
        files[f"{model}-ratings.csv"] = ExportedFile(
            csv_text([["id", *numbered], *complete]),
            "one column each for the first, second, ... rating of an answer",
        )
    if means:
        files[f"{model}-pooled.csv"] = ExportedFile(
            csv_text([["id", "people"], *means]), "mean ratings, or the lead's decisions"
        )
    line = f"{model}: {len(complete)} of {len(items)} answers have all {per_item} ratings"
    return Export([line], files)


def _ratings_of(item: Item, labelled: Labelled) -> dict[str, float]:
    """Return the ratings of an answer, by annotator."""
    return {label.person: _rating(label.values) for label in labelled.labels_of(item, _STAGE)}


def _rating(values: Values) -> float:
    return float(values["rating"])


def _images(dimensions: Iterable[str], folder: MediaFolder) -> dict[str, str]:
    """Store the images of all questions and return their names in the media folder, by question."""
    from datasets import Image

    images = {}
    for name in sorted(dimensions):
        for row in EGOTHINK.load(name).cast_column("image", Image(decode=False)):
            images[row["id"]] = folder.keep(row["image"]["bytes"]).name
    return images
