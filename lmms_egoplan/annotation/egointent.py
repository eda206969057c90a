"""EgoIntent's labels revised by people, their cuts moved, and hindsight checked (sec. 3.3).

A first person revises a step's labels, a second one reviews what came of it, the lead decides where they differ.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder
from lmms_egoplan.annotation.egointent_audit import AUDIT, Rate, audit, audit_csv
from lmms_egoplan.annotation.flow import GUIDES, Export, ExportedFile, Flow, Item, Labelled, Stage
from lmms_egoplan.annotation.forms import Choice, Field, Film, Form, Moment, Option, Values, Words
from lmms_egoplan.benchmarks.egointent.prepare import record_footage
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, Record, fields_of_keys, load, read_annotations
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.media.footage import tell_of_lost
from lmms_egoplan.media.frames import frame_times
from lmms_egoplan.validation import is_text

_REVISE, _REVIEW = "revise", "review"
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_CUT, _BOUNDARY = "end_sec", "boundary"
_EARLIER = "It can be moved to an earlier frame, not to a later one: nobody sees a frame after it."
_ENVIRONMENT, _SCENARIO = "environment", "scenario"
_ENVIRONMENTS = tuple(Option(environment, environment.capitalize()) for environment in ENVIRONMENTS)


def read_items(annotations: Path, videos: Path, *, skip_missing: bool = False) -> list[Item]:
    """Read steps to revise.

    Args:
        annotations: in the form of FORMAT.md; a key such as ``next_step_candidates`` has other texts for its label. Of
            steps that have such a key, or no place, the place is asked, too.
        videos: folder with ``<video_id>.mp4``.
        skip_missing: leave out steps without frames.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or frames are missing.
    """
    records = read_annotations(annotations)
    footage, lost = record_footage(records, videos, skip_missing=skip_missing)
    tell_of_lost(lost)
    return [
        _item(record, footage[record.step_id].path, raw.value)
        for record, raw in zip(records, load(annotations), strict=True)
        if record.step_id in footage
    ]


class RevisedSteps(Flow):
    """Steps whose labels and cut are revised, then reviewed by another person."""

    name = "egointent"
    title = "EgoIntent: revise steps"
    guide = GUIDES[name]
    stages = (Stage(_REVISE, "Revision", 1), Stage(_REVIEW, "Review by a second person", 1))

    def guide_to(self, shown: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the guide with the item's names of the labels."""
        return tuple(paragraph.format(**shown["titles"]) for paragraph in self.guide)

    def form(self, shown: Mapping[str, Any], earlier: Sequence[Values] = (), _order: int = 0) -> Form:
        """Show the clip up to the cut; ask for the three labels, which start as in an earlier revision."""
        place = shown.get("place", {})
        known = earlier[0] if earlier else shown["labels"] | place | {_CUT: shown["end_sec"]}
        times, end = shown["times"], known[_CUT]
        count = bisect_left(times, end)
        clip = Cut(shown["video"], tuple(range(shown["first"], shown["first"] + count)), shown["fps"])
        # A cut lies behind the clip's first frame, at the latest where it is.
        cuts = (*(time for time in times[1:count]), end)
        fields: list[Field] = []
        if earlier:
            title = "Does the clip end before the key outcome of the step is seen?"
            fields.append(Choice(_BOUNDARY, title, _YES_NO, help="If not, move its end."))
        fields.append(Moment(_CUT, "End of the clip", cuts, end, times[0], 1 / shown["fps"], help=_EARLIER))
        for field in FIELDS:
            text, title = known[field], shown["titles"][field]
            help_ = f"{'Label' if earlier else 'Candidate'}: {text}"
            asked = f"{title}: supported by what is seen before the end?"
            fields.append(Choice(f"supported_{field}", asked, _YES_NO, help=help_))
            others = () if earlier else shown.get("candidates", {}).get(field, ())
            fields.append(Words(field, title, text, tuple(dict.fromkeys((text, *others)))))
        if place:
            initial, scenario = known[_ENVIRONMENT] or "", known[_SCENARIO] or ""
            fields.append(Choice(_ENVIRONMENT, "Indoor or outdoor?", _ENVIRONMENTS, initial=initial))
            fields.append(Words(_SCENARIO, "Place", scenario, help="Such as kitchen, garage or yard."))
        return Form((Film("Step", clip),), tuple(fields))

    # No scales: the two people answer different questions; the audit counts.

    def differ(self, _item: Item, labels: Sequence[Values]) -> bool:
        """Tell if the reviewer changed something, or rejected a label or the cut."""
        revised, review = labels
        return (
            review[_BOUNDARY] == "no"
            or review[_CUT] != revised[_CUT]
            or any(review[f"supported_{field}"] == "no" or review[field] != revised[field] for field in FIELDS)
            or _place(review) != _place(revised)
        )

    def export(self, labelled: Labelled) -> Export:
        """Export ``steps.jsonl`` in the form of FORMAT.md, and ``audit.csv`` with the rates that the paper prints."""
        finals, unfinished, differing = self._finals(labelled)
        lines = [f"Steps revised and reviewed: {len(finals)} of {len(labelled.items)}"]
        if unfinished:
            lines.append(f"Left out, without revision or review yet: {unfinished}")
        if differing:
            lines.append(f"Left out, since the two differ and the lead has not decided: {differing}")
        files = {}
        if finals:
            files["steps.jsonl"] = ExportedFile(json_lines(finals), "the steps, for data prepare egointent")
        rates = audit_csv(_audit(labelled, finals))
        files[AUDIT] = ExportedFile(rates, "how labels and cuts were changed, for audit egointent")
        return Export(lines, files)

    def remarks(self, labelled: Labelled) -> list[str]:
        """Return the audit's rates."""
        finals, _, _ = self._finals(labelled)
        return [str(rate) for rate in _audit(labelled, finals)]

    def _finals(self, labelled: Labelled) -> tuple[list[dict[str, Any]], int, int]:
        """Return the finished steps; how many lack a label, and how many wait for the lead."""
        finals: list[dict[str, Any]] = []
        unfinished = differing = 0
        for item in labelled.items:
            decided = labelled.adjudicated(item)
            pair = [label.values for stage in (_REVISE, _REVIEW) for label in labelled.of(item, stage)[:1]]
            if decided is None and len(pair) < len(self.stages):
                unfinished += 1
            elif decided is None and self.differ(item, pair):
                differing += 1
            else:
                finals.append(_final(item, decided.values if decided else pair[1]))
        return finals, unfinished, differing

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all steps of the set."""
        return read_items(source / "steps.jsonl", source / "videos")


FLOW = RevisedSteps()


def _audit(labelled: Labelled, steps: Sequence[Mapping[str, Any]]) -> list[Rate]:
    """Compute the audit; labels are supported if the lead said so, or the reviewer where the lead did not decide."""
    revisions = [
        (item.shown["labels"], labels[0].values) for item in labelled.items if (labels := labelled.of(item, _REVISE))
    ]
    reviewed = {item.id: labels[0] for item in labelled.items if (labels := labelled.of(item, _REVIEW))}
    reviews = [label.values for label in reviewed.values()]
    last = [labelled.adjudicated(item) or reviewed.get(item.id) for item in labelled.items]
    supported = [[label.values[f"supported_{field}"] == "yes" for field in FIELDS] for label in last if label]
    durations = [step["end_sec"] - step["start_sec"] for step in steps]
    before = {item.id: item.shown["end_sec"] for item in labelled.items}
    moves = [step["end_sec"] - before[step["step_id"]] for step in steps]
    return audit(revisions, [values[_BOUNDARY] == "yes" for values in reviews], supported, moves, durations)


def _item(record: Record, video: Path, raw: Mapping[str, Any]) -> Item:
    # By field, the key that the file has for it.
    names = dict(zip(FIELDS, FIELDS, strict=True))
    names |= {field: key for key, field in fields_of_keys(raw).items() if field in names}
    times = frame_times(video)
    first, stop = (bisect_left(times, seconds) for seconds in (record.start_sec, record.end_sec))
    own = [float(time) for time in times[first:stop]]
    span = own[-1] - own[0]
    titles = {field: re.sub("[-_]", " ", names[field]).capitalize() for field in FIELDS}
    shown = {
        "video": str(video),
        "first": first,
        "times": own,
        "fps": (len(own) - 1) / span if span else 1.0,
        "end_sec": record.end_sec,
        "labels": {field: getattr(record, field) for field in FIELDS},
        "titles": titles,
    }
    candidates = {field: texts for field in FIELDS if (texts := _texts(raw.get(f"{names[field]}_candidates")))}
    if candidates:
        shown["candidates"] = candidates
    # Of others, nothing more is shown than before: their databases stay those of these items.
    if (candidates and not record.is_goalstep) or record.environment is None:
        shown["place"] = {name: getattr(record, name) for name in (_ENVIRONMENT, _SCENARIO)}
    whole = {key: value for key, value in record.model_dump().items() if key not in FIELDS and value is not None}
    return Item(record.step_id, shown, {"record": whole, "names": names}, ("video",))


def _texts(raw: Any) -> list[str]:
    """Return the texts of a list; none of anything else."""
    return [text for text in raw if is_text(text)] if isinstance(raw, list) else []


def _place(values: Values) -> Values:
    """Return what was said of the place, if it was asked."""
    return {name: values[name] for name in (_ENVIRONMENT, _SCENARIO) if name in values}


def _final(item: Item, values: Values) -> dict[str, Any]:
    # Not rounded: a time that is rounded up lets one more frame in.
    names = item.hidden["names"]
    labels = {names[field]: values[field] for field in FIELDS}
    return item.hidden["record"] | {"end_sec": values[_CUT]} | labels | _place(values) | {"unverified": False}
