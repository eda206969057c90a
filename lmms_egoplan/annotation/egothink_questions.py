"""Write questions for EgoThink's dimensions, and have three people review each.

The procedure is that of the paper (arXiv 2311.15596, sec. 3.1 and 3.2).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
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
    all_values,
    optional_value,
)
from lmms_egoplan.annotation.forms import (
    Choice,
    Field,
    Form,
    Option,
    Picture,
    Prose,
    Values,
    Words,
)
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import json_lines, parse_record, read_lines
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import Checked, Expected, Text, read_as

# The file that `data build egothink` reads from an export.
QUESTIONS = "questions.jsonl"
_WRITE = "write"
_REVIEW = "review"
# Sec. 3.2: three reviewers, who must all agree.
_REVIEWERS = 3
# Sec. 3.2: six annotators for twelve dimensions.
_DIMENSIONS_PER_WRITER = 2
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
# Questions of reviewers, by field.
_CRITERIA = {
    "fits": "Do picture, question and answer meet the definition of the dimension?",
    "right": "Are question and answer right for the picture?",
    "clear": "Is the picture clear and first-person?",
}
# Columns of the export that the writer has filled in.
_WRITTEN = ("dimension", "question", "answer", "concept", "scene")
# This project's: the paper names its own scenes only in a figure.
_SCENES = (
    "kitchen",
    "living room",
    "bathroom",
    "garden",
    "garage",
    "workshop",
    "office",
    "shop",
    "street",
    "car",
)
# The definitions of sec. 3.1, reworded.
_DEFINITIONS = {
    "existence": "Is there an object as described, or which object is it? (What is around me?)",
    "attribute": (
        "Which property or characteristic does an object have, such as its colour? (What is around "
        "me?)"
    ),
    "affordance": "What can a person do with an object? (What is around me?)",
    "activity": (
        "Which action or activity is it, by the objects and what the hands do to them? (What am I "
        "doing?)"
    ),
    "location": "Which scene surrounds me? (Where am I?)",
    "spatial": "Where is an object in relation to me? (Where am I?)",
    "counting": (
        "How many objects are in my hands or around me? (What about the situation around me?)"
    ),
    "comparison": (
        "How do objects in my hands or around me compare? (What about the situation around me?)"
    ),
    "situated": (
        "The picture alone does not show the answer; it takes a further step of reasoning. (What "
        "about the situation around me?)"
    ),
    "forecasting": (
        "How will an object's state change, or what will my hands do next? (What will happen to "
        "me?)"
    ),
    "navigation": "How do I get from where I am to a place? (How will I do it?)",
    "assistance": "Which instructions solve a daily problem? (How will I do it?)",
}
# What became of a picture.
_ACCEPTED_BY_ALL = "accepted by all reviewers"
_ACCEPTED_BY_LEAD = "accepted by the lead, not by all reviewers"
_REJECTED_BY_ALL = "rejected by all reviewers"
_REJECTED_BY_LEAD = "rejected by the lead"
_UNDECIDED = "reviewers differ, and the lead has not decided"
_WRITTEN_BY_LEAD = "written by the lead, so not reviewed"
_UNFINISHED = "review not finished"
_SET_ASIDE = "set aside without a question"
_SKIPPED = "skipped, no question yet"
_OPEN = "no question yet"
# The export's lines follow this order.
_VERDICTS = (
    _ACCEPTED_BY_ALL,
    _ACCEPTED_BY_LEAD,
    _REJECTED_BY_ALL,
    _REJECTED_BY_LEAD,
    _UNDECIDED,
    _WRITTEN_BY_LEAD,
    _UNFINISHED,
    _SET_ASIDE,
    _SKIPPED,
    _OPEN,
)


class _Frame(Checked):
    image: Text
    video: Text
    frame: int


class WrittenQuestion(_Frame):
    """A line of `QUESTIONS`.

    Attributes:
        digest: SHA-256 of the image.
        unanimous: Whether all reviewers accepted the question; false if the lead decided.
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
    """Write questions about pictures, and review them.

    One person writes a question about a picture, or sets the picture aside. Three others review the
    question.
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
            return Form((picture,), _writing_fields())
        written = earlier[0]
        if written["use"] == "no":
            explanation = (
                "The writer found no question for this picture, so there is nothing to review. "
                "Save to continue."
            )
            return Form((picture, Prose("Nothing to review", explanation)), ())
        parts = (
            picture,
            Prose(written["dimension"].capitalize(), _DEFINITIONS[written["dimension"]]),
            Prose("Question", written["question"]),
            Prose("Answer", written["answer"]),
            Prose("Scene", written["scene"]),
        )
        criteria = tuple(Choice(name, title, _YES_NO) for name, title in _CRITERIA.items())
        return Form(parts, criteria)

    def allowed_options(self, number: int, count: int) -> Mapping[str, Sequence[str]]:
        """Return the two dimensions for which a writer writes.

        Sec. 3.2: "annotators were responsible for two specific dimensions". The paper does not say
        which two: the order of Table 3 is this project's choice. From the seventh writer on, it
        begins anew. With fewer than six writers, everybody writes for all dimensions, so that none
        lacks questions.
        """
        num_pairs = len(DIMENSION_NAMES) // _DIMENSIONS_PER_WRITER
        if count < num_pairs:
            return {}
        first = (number - 1) % num_pairs * _DIMENSIONS_PER_WRITER
        return {"dimension": DIMENSION_NAMES[first : first + _DIMENSIONS_PER_WRITER]}

    def guide_to(self, contents: Mapping[str, Any]) -> Sequence[str]:
        """Return the guide, with the definitions of the dimensions before its source."""
        *paragraphs, source = super().guide_to(contents)
        definitions = [f"{name.capitalize()}: {text}" for name, text in _DEFINITIONS.items()]
        return [*paragraphs, *definitions, source]

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return a scale for each criterion. Only reviews have values."""
        return [
            Scale(title, ("no", "yes"), partial(optional_value, name))
            for name, title in _CRITERIA.items()
        ]

    def differ(self, _item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether some reviewers, but not all, accept the question."""
        return len({_accepts(values) for values in all_values(rounds) if "fits" in values}) > 1

    def sets_aside(self, values: Values) -> bool:
        """Return whether the writer does not use the picture."""
        return values.get("use") == "no"

    def export(self, labelled: Labelled) -> Export:
        """Export the accepted questions to ``questions.jsonl``, all others to ``rejected.csv``.

        The second file names the reasons.
        """
        accepted: list[dict[str, Any]] = []
        criteria = [f"{name}_yes" for name in _CRITERIA]
        rejected: list[list[Any]] = [["image", "reason", "reviews", *criteria, *_WRITTEN]]
        counts = Counter[str]()
        skipped = {skip.item for skip in labelled.skips}
        for item in labelled.items:
            written = labelled.labels_of(item, _WRITE)
            reviews = labelled.labels_of(item, _REVIEW)
            verdict = _verdict(
                written, reviews, labelled.adjudicated(item), is_skipped=item.id in skipped
            )
            counts[verdict] += 1
            texts = dict.fromkeys(_WRITTEN, "")
            if written:
                texts = {name: written[0].values.get(name, "") for name in _WRITTEN}
            if verdict in (_ACCEPTED_BY_ALL, _ACCEPTED_BY_LEAD):
                accepted.append({**item.hidden, **texts, "unanimous": verdict == _ACCEPTED_BY_ALL})
            else:
                rejected.append(
                    [item.id, verdict, len(reviews), *_num_yes(reviews), *texts.values()]
                )
        lines = [f"Questions accepted: {len(accepted)} of {len(labelled.items)} pictures"]
        lines += [f"  {verdict}: {counts[verdict]}" for verdict in _VERDICTS if counts[verdict]]
        files = {
            "rejected.csv": ExportedFile(csv_text(rejected), "all other pictures, with reasons")
        }
        if accepted:
            files[QUESTIONS] = ExportedFile(
                json_lines(accepted), "for data build egothink --questions"
            )
        return Export(lines, files)


FLOW = WrittenQuestions()


def _writing_fields() -> tuple[Field, ...]:
    """Ask whether the writer uses the picture, and if so, for a question about it."""
    is_used = ("use", ("yes",))
    dimensions = tuple(Option(name, name.capitalize()) for name in DIMENSION_NAMES)
    return (
        Choice(
            "use",
            "Is the picture clear and first-person, and can you ask a good question about it?",
            _YES_NO,
        ),
        Choice("dimension", "Dimension", dimensions, applies=is_used),
        Words(
            "question",
            "Question",
            help=(
                "In the first person, as the person with the camera would ask, such as "
                '"What am I holding in my right hand?"'
            ),
            applies=is_used,
        ),
        Words(
            "answer",
            "Answer",
            help=(
                "As short and precise as possible. For navigation and assistance, one or a few "
                "sentences with the steps."
            ),
            applies=is_used,
        ),
        Words(
            "concept",
            "Concept",
            help=(
                'The object or activity that the question is about, such as "screwdriver" or '
                '"open the cabinet".'
            ),
            applies=is_used,
        ),
        Words(
            "scene",
            "Scene",
            candidates=_SCENES,
            help="The scene in the picture, in a few words.",
            applies=is_used,
        ),
    )


def _num_yes(reviews: Sequence[Label]) -> list[int]:
    """Return the number of reviews that say yes, for each criterion."""
    return [_count_yes(reviews, name) for name in _CRITERIA]


def _count_yes(reviews: Sequence[Label], criterion: str) -> int:
    return sum(review.values.get(criterion) == "yes" for review in reviews)


def _accepts(values: Values) -> bool:
    """Return whether a review says yes to all criteria."""
    return all(values.get(name) == "yes" for name in _CRITERIA)


def _verdict(
    written: Sequence[Label], reviews: Sequence[Label], decided: Label | None, *, is_skipped: bool
) -> str:
    """Return one of `_VERDICTS`."""
    if not written:
        return _verdict_without_question(decided, is_skipped=is_skipped)
    if written[0].values["use"] == "no":
        return _SET_ASIDE
    return _verdict_of_reviews(reviews, decided)


def _verdict_of_reviews(reviews: Sequence[Label], decided: Label | None) -> str:
    """Return the verdict on a question: the lead's, or that of the reviewers."""
    votes = [_accepts(label.values) for label in reviews]
    is_finished = len(votes) >= _REVIEWERS
    if decided and not _accepts(decided.values):
        return _REJECTED_BY_LEAD
    if is_finished and all(votes):
        return _ACCEPTED_BY_ALL
    if decided:
        return _ACCEPTED_BY_LEAD
    if not is_finished:
        return _UNFINISHED
    return _UNDECIDED if any(votes) else _REJECTED_BY_ALL


def _verdict_without_question(decided: Label | None, *, is_skipped: bool) -> str:
    """Return the verdict on a picture for which no annotator has written a question."""
    if decided:
        return _WRITTEN_BY_LEAD
    return _SKIPPED if is_skipped else _OPEN
