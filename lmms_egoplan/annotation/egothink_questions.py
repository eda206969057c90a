"""Write questions for EgoThink's dimensions, and have three people review each (arXiv 2311.15596,
sec. 3.1 and 3.2).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate

from lmms_egoplan.annotation.clips import KeptImage, MediaFolder
from lmms_egoplan.annotation.flow import (
    Export,
    ExportedFile,
    Flow,
    Item,
    Label,
    Labelled,
    Scale,
    Stage,
)
from lmms_egoplan.annotation.forms import Choice, Form, Option, Picture, Prose, Values, Words
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import Checked, Expected, Text, read_as

# The file that `data build egothink` reads from an export.
QUESTIONS = "questions.jsonl"
# Sec. 3.2: three reviewers, who must all agree.
_WRITE, _REVIEW, _REVIEWERS = "write", "review", 3
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_TEXTS: dict[str, Any] = module_yaml(__file__)
_CRITERIA: dict[str, str] = _TEXTS["criteria"]
_ALL, _LEAD, _NONE, _LEAD_REJECTS, _DIFFER, _BY_LEAD, _UNFINISHED, _SET_ASIDE, _SKIPPED, _OPEN = (
    _TEXTS["verdicts"]
)


class _Frame(Checked):
    image: Text
    video: Text
    frame: int


class WrittenQuestion(_Frame):
    """A line of `QUESTIONS`; `digest` is the SHA-256 of the image, `unanimous` is false if the lead
    decided.
    """

    digest: Text
    dimension: Annotated[str, Predicate(DIMENSION_NAMES.__contains__), Expected("a dimension")]
    question: Text
    answer: Text
    concept: Text
    scene: Text
    unanimous: bool


def read_image(where: str, folder: Path, name: str) -> bytes:
    """Read the image of a line.

    Raises:
        LmmsEgoplanError: The file is missing or not in the folder.
    """
    try:
        return resolve_inside(folder, name).read_bytes()
    except (OSError, LmmsEgoplanError) as error:
        raise LmmsEgoplanError(f"{where}: image: {error}") from error


def read_items(path: Path, folder: MediaFolder) -> list[Item]:
    """Read the frames of ``data build egothink``.

    Args:
        path: The file ``frames.jsonl``, with images next to it.
        folder: Receives the images.

    Raises:
        LmmsEgoplanError: The file is unreadable, malformed or empty, or an image is missing. Names
            the line.
    """
    items = []
    for where, text in read_lines(path):
        frame = read_as(_Frame, where, parse_record(where, text))
        content = read_image(where, path.parent, frame.image)
        hidden = frame.model_dump() | {"digest": sha256(content).hexdigest()}
        items.append(Item(frame.image, {"image": folder.keep(content).name}, hidden))
    if not items:
        raise LmmsEgoplanError(
            f"{path}: no frames; create the file with lmms-egoplan data build egothink"
        )
    return items


class WrittenQuestions(Flow):
    """One person writes a question about a picture, or sets the picture aside; three others review
    the question.
    """

    name = "egothink-questions"
    title = "EgoThink: write questions"
    stages = (
        Stage(_WRITE, "Writing", 1),
        Stage(_REVIEW, "Review by three other people", _REVIEWERS),
    )
    agreement_stage = _REVIEW

    def form(
        self,
        contents: Mapping[str, Any],
        earlier: Sequence[Values] = (),
        _order: int = 0,
        stage: str = "",
    ) -> Form:
        """Show the picture.

        Ask for a question, or whether a written one meets its dimension's definition.
        """
        picture = Picture("Picture", KeptImage(contents["image"]))
        if not earlier or stage == _WRITE:
            options, is_used = (
                tuple(Option(name, name.capitalize()) for name in DIMENSION_NAMES),
                ("use", ("yes",)),
            )
            dimension = Choice("dimension", "Dimension", options, applies=is_used)
            texts = (
                Words(name, applies=is_used, **settings)
                for name, settings in _TEXTS["texts"].items()
            )
            return Form((picture,), (Choice("use", _TEXTS["use"], _YES_NO), dimension, *texts))
        written = earlier[0]
        if written["use"] == "no":
            return Form((picture, Prose("Nothing to review", _TEXTS["set aside"])), ())
        definition = Prose(
            written["dimension"].capitalize(), _TEXTS["definitions"][written["dimension"]]
        )
        prose = (
            Prose(name.capitalize(), written[name]) for name in ("question", "answer", "scene")
        )
        criteria = tuple(Choice(name, title, _YES_NO) for name, title in _CRITERIA.items())
        return Form((picture, definition, *prose), criteria)

    def guide_to(self, contents: Mapping[str, Any]) -> Sequence[str]:
        """Return the guide, with the definitions of the dimensions before its source."""
        *paragraphs, source = super().guide_to(contents)
        definitions = (
            f"{name.capitalize()}: {text}" for name, text in _TEXTS["definitions"].items()
        )
        return [*paragraphs, *definitions, source]

    def scales(self) -> Sequence[Scale]:
        """Return a scale for each criterion. Only reviews have values."""
        return [
            Scale(title, ("no", "yes"), methodcaller("get", name))
            for name, title in _CRITERIA.items()
        ]

    def differ(self, _item: Item, labels: Sequence[Values]) -> bool:
        """Return whether some reviewers, but not all, accept the question."""
        return len({_accepts(values) for values in labels if "fits" in values}) > 1

    def sets_aside(self, values: Values) -> bool:
        """Return whether the writer does not use the picture."""
        return values.get("use") == "no"

    def export(self, labelled: Labelled) -> Export:
        """Export the accepted questions to ``questions.jsonl``, and all others with reasons to
        ``rejected.csv``.
        """
        accepted, counts = [], Counter[str]()
        skipped = {skip.item for skip in labelled.skips}
        names = ("dimension", *_TEXTS["texts"])
        rejected = [["image", "reason", "reviews", *(f"{name}_yes" for name in _CRITERIA), *names]]
        for item in labelled.items:
            written, reviews = labelled.of(item, _WRITE), labelled.of(item, _REVIEW)
            verdict = _verdict(
                written, reviews, labelled.adjudicated(item), is_skipped=item.id in skipped
            )
            texts = {name: written[0].values.get(name, "") if written else "" for name in names}
            if verdict in (_ALL, _LEAD):
                accepted.append({**item.hidden, **texts} | {"unanimous": verdict == _ALL})
            else:
                yes = [
                    sum(label.values.get(name) == "yes" for label in reviews) for name in _CRITERIA
                ]
                rejected.append([item.id, verdict, len(reviews), *yes, *texts.values()])
            counts[verdict] += 1
        lines = [f"Questions accepted: {len(accepted)} of {len(labelled.items)} pictures"]
        lines += [
            f"  {verdict}: {counts[verdict]}" for verdict in _TEXTS["verdicts"] if counts[verdict]
        ]
        files = {
            "rejected.csv": ExportedFile(csv_text(rejected), "all other pictures, with reasons")
        }
        if accepted:
            files[QUESTIONS] = ExportedFile(
                json_lines(accepted), "for data build egothink --questions"
            )
        return Export(lines, files)


FLOW = WrittenQuestions()


def _accepts(values: Values) -> bool:
    """Return whether a review says yes to all criteria."""
    return all(values.get(name) == "yes" for name in _CRITERIA)


def _verdict(
    written: Sequence[Label], reviews: Sequence[Label], decided: Label | None, *, is_skipped: bool
) -> str:
    """Return one of the verdicts of the YAML file."""
    if not written:
        return _BY_LEAD if decided else _SKIPPED if is_skipped else _OPEN
    if written[0].values["use"] == "no":
        return _SET_ASIDE
    votes = [_accepts(label.values) for label in reviews]
    if decided and not _accepts(decided.values):
        return _LEAD_REJECTS
    if len(votes) < _REVIEWERS or not all(votes):
        return (
            _LEAD
            if decided
            else _UNFINISHED
            if len(votes) < _REVIEWERS
            else _DIFFER
            if any(votes)
            else _NONE
        )
    return _ALL
