"""Revise EgoIntent's labels and cuts with human annotators, and check for hindsight (sec. 3.3).

One person revises a step's labels and a second one reviews the result. The lead decides where they differ.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import fmean, median
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder
from lmms_egoplan.annotation.flow import Contents, Earlier, Export, ExportedFile, Flow, Item, Labelled, Stage
from lmms_egoplan.annotation.forms import Choice, Field, Film, Form, Moment, Option, Values, Words
from lmms_egoplan.benchmarks.egointent.prepare import duration_counts, record_footage
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, Record, fields_of_keys, load, read_annotations
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines, read_csv
from lmms_egoplan.media.footage import warn_of_lost
from lmms_egoplan.media.frames import frame_times
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import is_text

AUDIT = "audit.csv"
_NONE = "n/a"
_PAPER: dict[str, dict[str, Any]] = module_yaml(__file__)
_REVISE, _REVIEW = "revise", "review"
_CUT, _BOUNDARY = "end_sec", "boundary"
_ENVIRONMENT, _SCENARIO = "environment", "scenario"
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_EARLIER = "You can move it to an earlier frame. Later frames are not in the clip."
_ENVIRONMENTS = tuple(Option(environment, environment.capitalize()) for environment in ENVIRONMENTS)


@dataclass(frozen=True)
class Rate:
    """A rate in percent or a time in seconds. Unknown values, and all values read from a file, are texts.

    Attributes:
        rate: Name of the rate.
        value: Value in the export.
        count: Numerator of the rate; for times, the number of measured steps.
        of: Denominator of the rate; for times, the number of all steps.
        paper: The paper's value.
        printed: The paper's counts, if it prints them.
        where: Section of the paper.
    """

    rate: str
    value: float | str
    count: int | str
    of: int | str
    paper: float | str = _NONE
    printed: str = ""
    where: str = ""

    def __str__(self) -> str:
        paper = ", ".join(filter(None, (str(self.paper), self.printed, self.where)))
        return f"{self.rate.replace('_', ' ')}: {self.value} ({self.count} of {self.of}; paper: {paper})"


def audit(
    revisions: Sequence[tuple[dict[str, str], dict[str, Any]]],
    boundaries: Sequence[bool],
    supported: Sequence[Sequence[bool]],
    moves: Sequence[float],
    durations: Sequence[float],
) -> list[Rate]:
    """Compute the rates of sec. 3.3 and the durations of sec. 3.4.

    Args:
        revisions: For each revised step, the candidates and the first person's values.
        boundaries: For each reviewed step, whether its outcome is not yet visible at the cut.
        supported: For each reviewed step, the final verdicts on whether its three labels are supported.
        moves: For each finished step, the seconds from the original cut to the final one; 0 for an unmoved cut.
        durations: Durations of the finished steps, seconds.
    """
    moved = [abs(seconds) for seconds in moves if seconds]
    rates = [
        _share(
            f"candidates_rewritten_for_hindsight_{field}",
            [values[f"supported_{field}"] == "no" and values[field] != labels[field] for labels, values in revisions],
        )
        for field in FIELDS
    ]
    rates.append(_share("labels_supported_before_the_cut", [verdict for step in supported for verdict in step]))
    rates.append(_share("steps_with_all_labels_supported", [all(step) for step in supported]))
    rates.append(_share("cuts_moved", [bool(seconds) for seconds in moves]))
    rates.append(_share("outcome_not_yet_visible", boundaries))
    for name, statistic in (("median", median), ("mean", fmean)):
        value = round(statistic(moved), 3) if moved else _NONE
        rates.append(_rate(f"{name}_adjustment_sec", value, len(moved), len(moves)))
    counts = duration_counts(durations) if durations else {}
    for name in ("median", "mean", "p75"):
        rates.append(_rate(f"{name}_duration_sec", counts.get(f"{name}_sec", _NONE), len(durations), len(durations)))
    rates.append(_share("steps_above_10_sec", [duration > 10 for duration in durations]))
    return rates


def audit_csv(rates: Sequence[Rate]) -> str:
    """Return the rates as CSV."""
    return csv_text([[field.name for field in fields(Rate)], *(astuple(rate) for rate in rates)])


def read_audit(labels: Path) -> list[Rate]:
    """Read the rates in an export of `annotate export`.

    Raises:
        LmmsEgoplanError: The file is missing or has another format.
    """
    path = labels / AUDIT
    if not path.is_file():
        raise LmmsEgoplanError(f"{path}: no such file; export the labels first: lmms-egoplan annotate export --help")
    names = [field.name for field in fields(Rate)]
    header, *rows = [cells for _, cells in read_csv(path, "audit")] or [[]]
    if header != names:
        raise LmmsEgoplanError(f"{path}: expected the columns {', '.join(names)}; export the labels again")
    if any(len(row) != len(names) for row in rows):
        raise LmmsEgoplanError(f"{path}: a line has more or fewer values than columns; export the labels again")
    return [Rate(*row) for row in rows]


def _share(name: str, verdicts: Sequence[bool]) -> Rate:
    return _rate(name, _percent(sum(verdicts), len(verdicts)), sum(verdicts), len(verdicts))


def _percent(count: int, of: int) -> float | str:
    return round(100 * count / of, 1) if of else _NONE


def _rate(name: str, value: float | str, count: int, of: int) -> Rate:
    paper = _PAPER.get(name, {})
    printed = f"{paper['count']:,} of {paper['of']:,}" if "count" in paper else ""
    paper_value = _percent(paper["count"], paper["of"]) if printed else paper.get("paper", _NONE)
    return Rate(name, value, count, of, paper_value, printed, paper.get("where", ""))


def read_items(annotations: Path, videos: Path, *, skip_missing: bool = False) -> list[Item]:
    """Read steps to revise.

    Args:
        annotations: Steps in the format of FORMAT.md. A key such as ``next_step_candidates`` adds alternative texts for
            its label. Annotators also name the place if it is unknown, or if a step that is not from Goal-Step has such
            a key.
        videos: Folder with ``<video_id>.mp4``.
        skip_missing: Skip steps without frames.

    Raises:
        LmmsEgoplanError: The annotations are invalid, or frames are missing.
    """
    records = read_annotations(annotations)
    footage, missing = record_footage(records, videos, skip_missing=skip_missing)
    warn_of_lost(missing)
    return [
        _item(record, footage[record.step_id].path, raw.value)
        for record, raw in zip(records, load(annotations), strict=True)
        if record.step_id in footage
    ]


class RevisedSteps(Flow):
    """Revise the labels and cuts of steps, and have another person review them."""

    name = "egointent"
    title = "EgoIntent: revise steps"
    stages = (Stage(_REVISE, "Revision", 1), Stage(_REVIEW, "Review by a second person", 1))

    def guide_to(self, contents: Contents) -> Sequence[str]:
        """Return the guide with the item's names for the labels."""
        return [paragraph.format(**contents["titles"]) for paragraph in super().guide_to(contents)]

    def form(self, contents: Contents, earlier: Earlier = (), _order: int = 0, _stage: str = "") -> Form:
        """Show the clip up to the cut. Ask for the three labels, preset to an earlier revision."""
        location = contents.get("place", {})
        initial = earlier[0] if earlier else contents["labels"] | location | {_CUT: contents["end_sec"]}
        times, end = contents["times"], initial[_CUT]
        count = bisect_left(times, end)
        clip = Cut(contents["video"], tuple(range(contents["first"], contents["first"] + count)), contents["fps"])
        # The cut can move to any frame after the clip's first one, up to its current position.
        cuts = (*(time for time in times[1:count]), end)
        fields: list[Field] = []
        if earlier:
            title = "Does the clip end before the key outcome of the step is seen?"
            fields.append(Choice(_BOUNDARY, title, _YES_NO, help="If not, move its end."))
        fields.append(Moment(_CUT, "End of the clip", cuts, end, times[0], 1 / contents["fps"], help=_EARLIER))
        for field in FIELDS:
            text, title = initial[field], contents["titles"][field]
            help_ = f"{'Label' if earlier else 'Candidate'}: {text}"
            question = f"{title}: supported by what is visible before the end?"
            fields.append(Choice(f"supported_{field}", question, _YES_NO, help=help_))
            candidates = () if earlier else contents.get("candidates", {}).get(field, ())
            fields.append(Words(field, title, text, tuple(dict.fromkeys((text, *candidates)))))
        if location:
            environment, scenario = initial[_ENVIRONMENT] or "", initial[_SCENARIO] or ""
            fields.append(Choice(_ENVIRONMENT, "Indoor or outdoor?", _ENVIRONMENTS, initial=environment))
            fields.append(Words(_SCENARIO, "Place", scenario, help="Such as kitchen, garage or yard."))
        return Form((Film("Step", clip),), tuple(fields))

    # No scales: the two people answer different questions. The audit counts the changes instead.

    def differ(self, _item: Item, labels: Sequence[Values]) -> bool:
        """Return whether the reviewer changed something, or rejected a label or the cut."""
        revised, review = labels
        return (
            review[_BOUNDARY] == "no"
            or review[_CUT] != revised[_CUT]
            or any(review[f"supported_{field}"] == "no" or review[field] != revised[field] for field in FIELDS)
            or _location(review) != _location(revised)
        )

    def export(self, labelled: Labelled) -> Export:
        """Export ``steps.jsonl`` in the format of FORMAT.md, and ``audit.csv`` with the rates that the paper prints."""
        finals, remarks = self._finals(labelled)
        files = {}
        if finals:
            files["steps.jsonl"] = ExportedFile(json_lines(finals), "finished steps, for data prepare egointent")
        rates = audit_csv(_audit(labelled, finals))
        files[AUDIT] = ExportedFile(rates, "rates of changed labels and cuts, for audit egointent-labels")
        return Export([f"Steps revised and reviewed: {len(finals)} of {len(labelled.items)}", *remarks], files)

    def remarks(self, labelled: Labelled) -> list[str]:
        """Return the audit's rates."""
        return [str(rate) for rate in _audit(labelled, self._finals(labelled)[0])]

    def _finals(self, labelled: Labelled) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the finished steps, and remarks on all other steps."""
        settled, remarks = labelled.settled(self, "not yet revised and reviewed", "review differs")
        # The last label is the lead's decision, or the review.
        return [_final(item, labels[-1].values) for item, labels in settled], remarks

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all steps of the set."""
        return read_items(source / "steps.jsonl", source / "videos")


FLOW = RevisedSteps()


def _audit(labelled: Labelled, steps: Sequence[Mapping[str, Any]]) -> list[Rate]:
    """Compute the audit. The lead's verdicts on labels count; without a decision, the reviewer's do."""
    revisions = [
        (item.contents["labels"], labels[0].values) for item in labelled.items if (labels := labelled.of(item, _REVISE))
    ]
    reviewed = {item.id: labels[0] for item in labelled.items if (labels := labelled.of(item, _REVIEW))}
    reviews = [label.values for label in reviewed.values()]
    final = [labelled.adjudicated(item) or reviewed.get(item.id) for item in labelled.items]
    supported = [[label.values[f"supported_{field}"] == "yes" for field in FIELDS] for label in final if label]
    durations = [step["end_sec"] - step["start_sec"] for step in steps]
    original = {item.id: item.contents["end_sec"] for item in labelled.items}
    moves = [step["end_sec"] - original[step["step_id"]] for step in steps]
    return audit(revisions, [values[_BOUNDARY] == "yes" for values in reviews], supported, moves, durations)


def _item(record: Record, video: Path, raw: Mapping[str, Any]) -> Item:
    # The file's key for each field.
    names = dict(zip(FIELDS, FIELDS, strict=True))
    names |= {field: key for key, field in fields_of_keys(raw).items() if field in names}
    times = frame_times(video)
    first, stop = (bisect_left(times, seconds) for seconds in (record.start_sec, record.end_sec))
    step_times = [float(time) for time in times[first:stop]]
    span = step_times[-1] - step_times[0]
    titles = {field: re.sub("[-_]", " ", names[field]).capitalize() for field in FIELDS}
    contents = {
        "video": str(video),
        "first": first,
        "times": step_times,
        "fps": (len(step_times) - 1) / span if span else 1.0,
        "end_sec": record.end_sec,
        "labels": {field: getattr(record, field) for field in FIELDS},
        "titles": titles,
    }
    candidates = {field: texts for field in FIELDS if (texts := _texts(raw.get(f"{names[field]}_candidates")))}
    if candidates:
        contents["candidates"] = candidates
    # Other steps must not get this key: it would change the items of existing databases.
    if (candidates and not record.is_goalstep) or record.environment is None:
        contents["place"] = {name: getattr(record, name) for name in (_ENVIRONMENT, _SCENARIO)}
    fixed = {key: value for key, value in record.model_dump().items() if key not in FIELDS and value is not None}
    return Item(record.step_id, contents, {"record": fixed, "names": names}, ("video",))


def _texts(raw: Any) -> list[str]:
    """Return the texts of a list; an empty list for anything else."""
    return [text for text in raw if is_text(text)] if isinstance(raw, list) else []


def _location(values: Values) -> Values:
    """Return the answers about the place. Empty if there was no such question."""
    return {name: values[name] for name in (_ENVIRONMENT, _SCENARIO) if name in values}


def _final(item: Item, values: Values) -> dict[str, Any]:
    # Do not round the cut: rounding up would admit another frame.
    names = item.hidden["names"]
    labels = {names[field]: values[field] for field in FIELDS}
    return item.hidden["record"] | {"end_sec": values[_CUT]} | labels | _location(values) | {"unverified": False}
