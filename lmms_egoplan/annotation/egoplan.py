"""Verify EgoPlan questions with human annotators (arXiv 2312.06722, sec. 3.3 and appendix A.3)."""

import json
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder, Still
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
    Film,
    Form,
    FormPart,
    Option,
    Picture,
    Prose,
    Values,
)
from lmms_egoplan.benchmarks.egoplan import records, verification
from lmms_egoplan.benchmarks.egoplan.footage.index import Roots, check_media
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import frames_per_second
from lmms_egoplan.text import csv_text

# Sec. 3.3: 50 samples, reviewed by two senior annotators.
QUALIFICATION = 50
_SENIORS = 2
SKIP = "skip"
# Why annotators skip a question, by the reason's name in exports.
SKIP_REASONS = {
    "unclear": "Unclear picture: the progress of the task is not visible",
    "ambiguous": "Ambiguous: the goal is unclear, no choice fits, or several do",
}

_STAGE = "verify"
# Approximate frame rate of clips.
_FPS = 10
# Maximum number of frames of a clip.
_MOST_FRAMES = 1200


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
        parts: list[FormPart] = [Prose("Goal", contents["goal"])]
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

    def scales(self, _labelled: Labelled) -> Sequence[Scale]:
        """Return the scale of choices, including skip."""
        return [Scale("Choice", (*LETTERS, SKIP), itemgetter("choice"))]

    def differ(self, item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether annotators chose differently from each other or from the record."""
        return {values["choice"] for values in all_values(rounds)} != {item.hidden["golden"]}

    def expected(self, item: Item) -> str:
        """Return the recorded answer."""
        return item.contents["choices"][item.hidden["golden"]]

    def agrees(self, item: Item, values: Values) -> bool:
        """Return whether a label's choice is the recorded one."""
        return values["choice"] == item.hidden["golden"]

    def export(self, labelled: Labelled) -> Export:
        """Export the verified annotations for ``data prepare egoplan``, and the rejected questions.

        Questions that the lead's decision keeps are marked with `verification.DECIDED`.
        """
        verified: list[dict[str, Any]] = []
        rejected: list[list[Any]] = []
        reasons = Counter[str]()
        for item in labelled.items:
            choices, reason = _verdict(item, labelled)
            if reason is None:
                verified.append(_verified_record(item, labelled))
                continue
            sample_id = item.hidden["record"]["sample_id"]
            rejected.append([sample_id, reason, " ".join(choices), item.hidden["golden"]])
            reasons[reason.partition(":")[0]] += 1
        lines = [f"Questions kept: {len(verified)} of {len(labelled.items)}"]
        by_lead = sum(verification.DECIDED in record for record in verified)
        if by_lead:
            lines.append(
                "  kept by the lead's decision; the paper keeps unanimous choices only "
                f"(sec. 3.3): {by_lead}"
            )
        lines += [f"  rejected, {reason}: {count}" for reason, count in reasons.items()]
        files = {}
        if verified:
            text = json.dumps({"EgoPlan_validation": verified}, indent=1, ensure_ascii=False) + "\n"
            files[verification.KEPT] = ExportedFile(
                text, "verified questions, for data prepare egoplan"
            )
        rows = csv_text([["sample_id", "reason", "choices", "record"], *rejected])
        files[verification.REJECTED] = ExportedFile(rows, "rejected questions with reasons")
        return Export(lines, files)

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all questions of the set."""
        roots = {records.EPIC_KITCHENS: source / "epic-kitchens", records.EGO4D: source / "ego4d"}
        return read_items(source / f"{records.LIST_KEYS['val']}.json", roots)


FLOW = VerifiedQuestions()


def clip_frames(record: records.Record) -> tuple[list[int], float]:
    """Return the frames of the progress and their frame rate.

    The progress is from the first past action's start to the observation. Takes every frame or
    every n-th one, counted back from the observation. The clip keeps the pace of the source, with
    at most about 10 frames per second. Without past actions, there are no frames.
    """
    if not record.past_actions:
        return [], float(_FPS)
    observation = record.current_observation_frame
    first = record.past_actions[0].start_frame
    rate = frames_per_second(record.video_source, record.video_id)
    stride_for_length = math.ceil((observation - first + 1) / _MOST_FRAMES)
    stride = max(1, rate // _FPS, stride_for_length)
    frames = sorted(range(observation, first - 1, -stride))
    return frames, rate / stride


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
    hidden = {"golden": record.golden_choice_idx, "record": raw}
    return Item(str(record.sample_id), contents, hidden, changing=("video",))


def _verified_record(item: Item, labelled: Labelled) -> dict[str, Any]:
    """Return the record of a question that is kept, with a mark if the lead has decided."""
    record = {
        name: value for name, value in item.hidden["record"].items() if name != verification.DECIDED
    }
    if labelled.adjudicated(item):
        record[verification.DECIDED] = verification.LEAD_KEEPS
    return record


def _verdict(item: Item, labelled: Labelled) -> tuple[list[str], str | None]:
    """Return an item's choices, and the reason for rejecting it; None if it is kept."""
    if item.id in labelled.qualification:
        return [], verification.SERVED
    golden = item.hidden["golden"]
    values = [label.values for label in labelled.labels_of(item, _STAGE)]
    choices = [value["choice"] for value in values]
    decision = labelled.adjudicated(item)
    if decision:
        return [*choices, f"lead:{decision.values['choice']}"], _objection(decision.values, golden)
    if len(choices) < labelled.per_item:
        return choices, verification.OPEN
    if SKIP in choices:
        reasons = sorted({value["reason"] for value in values if value["choice"] == SKIP})
        return choices, f"{verification.SKIPPED}: {', '.join(reasons)}"
    if len({*choices}) > 1:
        return choices, verification.DISAGREE
    return choices, None if choices[0] == golden else verification.OTHER


def _objection(decision: Values, golden: str) -> str | None:
    """Return why the lead rejects a question; None if the lead keeps it."""
    if decision["choice"] == golden:
        return None
    if decision["choice"] == SKIP:
        return f"{verification.LEAD_SKIPS}: {decision.get('reason')}"
    return verification.LEAD_REJECTS
