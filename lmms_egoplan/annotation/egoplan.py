"""Verify EgoPlan questions with human annotators (arXiv 2312.06722, sec. 3.3 and appendix A.3)."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder, Still
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Labelled, Scale, Stage
from lmms_egoplan.annotation.forms import (
    Choice,
    Contents,
    Earlier,
    Film,
    Form,
    Option,
    Part,
    Picture,
    Prose,
    Values,
)
from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.prepare import Roots, check_media
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.sources import frames_per_second
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import csv_text

# Sec. 3.3: 50 samples, reviewed by two senior annotators.
QUALIFICATION, _SENIORS = 50, 2
SKIP = "skip"
SKIP_REASONS: dict[str, str] = module_yaml(__file__)

_STAGE = "verify"
# Approximate frame rate and maximum number of frames of clips.
_FPS, _MOST = 10, 1200


def read_items(annotations: Path, roots: Roots, *, skip_missing: bool = False) -> list[Item]:
    """Read questions to verify.

    Args:
        annotations: File of the split val, in the official format.
        roots: By source, the folder with its frames or videos.
        skip_missing: Skip questions without frames.

    Raises:
        LmmsEgoplanError: The annotations are invalid, or frames are missing.
    """
    questions = records.read_annotations(annotations, "val")
    media = check_media(questions, roots, skip_missing=skip_missing)
    raw = records.load_list(annotations, records.LIST_KEYS["val"])
    return [
        _item(record, fields, media[record.sample_id])
        for record, fields in zip(questions, raw, strict=True)
        if record.sample_id in media
    ]


class VerifiedQuestions(Flow):
    """Verify questions: annotators answer them without seeing the recorded answer."""

    name = "egoplan"
    title = "EgoPlan: verify questions"
    stages = (Stage(_STAGE, "Verification"),)
    seniors = _SENIORS

    def form(
        self, contents: Contents, _earlier: Earlier = (), order: int = 0, _stage: str = ""
    ) -> Form:
        """Show goal, clip and observation. Ask for a choice, in a personal order, or skip."""
        letters = list(LETTERS)
        random.Random(order).shuffle(letters)
        parts: list[Part] = [Prose("Goal", contents["goal"])]
        if contents["frames"]:
            cut = Cut(contents["video"], tuple(contents["frames"]), contents["fps"])
            parts.append(Film("Progress so far", cut))
        parts.append(Picture("Observation now", Still(contents["video"], contents["observation"])))
        options = (
            *(Option(letter, contents["choices"][letter]) for letter in letters),
            Option(SKIP, "Skip"),
        )
        reasons = tuple(Option(key, title) for key, title in SKIP_REASONS.items())
        reason = Choice("reason", "Why skip?", reasons, applies=("choice", (SKIP,)))
        return Form(tuple(parts), (Choice("choice", "What comes next?", options), reason))

    def scales(self) -> Sequence[Scale]:
        """Return the scale of choices, including skip."""
        return [Scale("Choice", (*LETTERS, SKIP), itemgetter("choice"))]

    def differ(self, item: Item, labels: Sequence[Values]) -> bool:
        """Return whether annotators chose differently from each other or from the record."""
        return {values["choice"] for values in labels} != {item.hidden["golden"]}

    def expected(self, item: Item) -> str:
        """Return the recorded answer."""
        return item.contents["choices"][item.hidden["golden"]]

    def agrees(self, item: Item, values: Values) -> bool:
        """Return whether a label's choice is the recorded one."""
        return values["choice"] == item.hidden["golden"]

    def export(self, labelled: Labelled) -> Export:
        """Export the verified annotations for ``data prepare egoplan``, and the rejected questions
        with reasons.

        Questions that the lead's decision keeps are marked with `records.DECIDED`.
        """
        verified, rejected = [], []
        for item in labelled.items:
            choices, reason = _verdict(item, labelled)
            record = {
                name: value
                for name, value in item.hidden["record"].items()
                if name != records.DECIDED
            }
            if reason is None:
                verified.append(
                    record
                    | ({records.DECIDED: records.LEAD_KEEPS} if labelled.adjudicated(item) else {})
                )
            else:
                rejected.append(
                    [record["sample_id"], reason, " ".join(choices), item.hidden["golden"]]
                )
        lines = [f"Questions kept: {len(verified)} of {len(labelled.items)}"]
        if by_lead := sum(records.DECIDED in record for record in verified):
            lines.append(
                "  kept by the lead's decision; the paper keeps unanimous choices only "
                f"(sec. 3.3): {by_lead}"
            )
        counts = Counter(reason.partition(":")[0] for _, reason, *_ in rejected)
        lines += [f"  rejected, {reason}: {count}" for reason, count in counts.items()]
        files = {}
        if verified:
            text = json.dumps({"EgoPlan_validation": verified}, indent=1, ensure_ascii=False) + "\n"
            files[records.KEPT] = ExportedFile(text, "verified questions, for data prepare egoplan")
        rows = csv_text([["sample_id", "reason", "choices", "record"], *rejected])
        return Export(
            lines, files | {records.REJECTED: ExportedFile(rows, "rejected questions with reasons")}
        )

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all questions of the set."""
        roots = {records.EPIC_KITCHENS: source / "epic-kitchens", records.EGO4D: source / "ego4d"}
        return read_items(source / f"{records.LIST_KEYS['val']}.json", roots)


FLOW = VerifiedQuestions()


def clip_frames(record: records.Record) -> tuple[list[int], float]:
    """Return the frames of the progress, from the first past action's start to the observation, and
    their frame rate.

    Takes every frame or every n-th one, counted back from the observation. The clip keeps the pace
    of the source, with at most about 10 frames per second. Without past actions, there are no
    frames.
    """
    if not record.past_actions:
        return [], float(_FPS)
    observation, first = record.current_observation_frame, record.past_actions[0].start_frame
    rate = frames_per_second(record.video_source, record.video_id)
    stride = max(1, rate // _FPS, -(-(observation - first + 1) // _MOST))
    return list(range(observation, first - 1, -stride))[::-1], rate / stride


def _item(record: records.Record, raw: Mapping[str, Any], video: Path) -> Item:
    frames, fps = clip_frames(record)
    contents = {
        "goal": record.task_goal,
        "choices": dict(zip(LETTERS, record.choices, strict=True)),
        "video": str(video),
        "frames": frames,
        "fps": fps,
        "observation": record.current_observation_frame,
    }
    return Item(
        str(record.sample_id),
        contents,
        {"golden": record.golden_choice_idx, "record": raw},
        ("video",),
    )


def _verdict(item: Item, labelled: Labelled) -> tuple[list[str], str | None]:
    """Return an item's choices, and the reason for rejecting it; None if it is kept."""
    if item.id in labelled.qualification:
        return [], records.SERVED
    values = [label.values for label in labelled.of(item, _STAGE)]
    choices = [value["choice"] for value in values]
    if decided := labelled.adjudicated(item):
        choice, reason = decided.values["choice"], decided.values.get("reason")
        why = f"{records.LEAD_SKIPS}: {reason}" if choice == SKIP else records.LEAD_REJECTS
        return [*choices, f"lead:{choice}"], None if choice == item.hidden["golden"] else why
    if len(choices) < labelled.per_item:
        return choices, records.OPEN
    if SKIP in choices:
        reasons = sorted({value["reason"] for value in values if value["choice"] == SKIP})
        return choices, f"{records.SKIPPED}: {', '.join(reasons)}"
    if len({*choices}) > 1:
        return choices, records.DISAGREE
    return choices, None if choices[0] == item.hidden["golden"] else records.OTHER
