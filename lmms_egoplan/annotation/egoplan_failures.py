"""Label the failures of models in EgoPlan's questions (arXiv 2312.06722, Fig. 6)."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from lmms_egoplan.annotation.actplan_plans import pictures
from lmms_egoplan.annotation.clips import MediaFolder
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
from lmms_egoplan.annotation.forms import Choice, Contents, Earlier, Form, Option, Prose, Values
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.media.image_files import jpeg
from lmms_egoplan.report.egoplan.failures import FAILURES, LABELS, PEOPLE
from lmms_egoplan.report.egoplan.wrong_answers import wrong_answers


def read_items(runs: Sequence[Path], count: int | None, folder: MediaFolder) -> list[Item]:
    """Read wrong answers to label.

    Args:
        runs: Folders of runs.
        count: Number of answers per run and task, drawn at random; None for all.
        folder: Receives the frames that annotators see.

    Raises:
        LmmsEgoplanError: A run cannot be read, or media are missing.
    """
    items = []
    for failure, frames in wrong_answers(runs, count):
        if frames is None:
            raise LmmsEgoplanError(
                f"{failure.id}: the video is missing; restore it, or prepare the data again"
            )
        images = [folder.keep(jpeg(image, 90)).name for image in frames()]
        items.append(
            Item(failure.id, {"texts": failure.texts, "images": images}, failure.model_dump())
        )
    return items


class LabelledFailures(Flow):
    """Label the type of failure in each wrong answer, without seeing the model's name."""

    name = "egoplan-failures"
    title = "EgoPlan: types of failures"
    stages = (Stage("label", "Labels"),)
    mark = "egoplan"

    def form(
        self, contents: Contents, _earlier: Earlier = (), _order: int = 0, _stage: str = ""
    ) -> Form:
        """Show the texts and frames of an answer. Ask for the type of failure."""
        options = tuple(Option(key, title) for key, title in FAILURES.items())
        texts = (Prose(title, text) for title, text in contents["texts"].items())
        return Form(
            (*texts, *pictures(contents["images"])),
            (Choice("type", "What explains the choice best?", options),),
        )

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return the scale of types."""
        return [Scale("Type", tuple(FAILURES), itemgetter("type"))]

    def differ(self, _item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether the types differ."""
        return len({values["type"] for values in all_values(rounds)}) > 1

    def export(self, labelled: Labelled) -> Export:
        """Export ``failures.jsonl`` for the report, with all answers.

        Those without a settled label have no type.
        """
        settled, remarks = labelled.settled(
            self, f"fewer than {labelled.per_item} labels", "types differ"
        )
        types = {
            item.id: {"type": labels[0].values["type"], "why": None} for item, labels in settled
        }
        records = [
            {**item.hidden, "by": PEOPLE, **types.get(item.id, {})} for item in labelled.items
        ]
        lines = [f"Answers labelled: {len(types)} of {len(records)}", *remarks]
        return Export(lines, {LABELS: ExportedFile(json_lines(records), "for report")})


FLOW = LabelledFailures()
