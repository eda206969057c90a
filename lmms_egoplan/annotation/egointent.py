"""Revise EgoIntent's labels and cuts with human annotators, and control their quality (sec. 3.3).

One person revises a step's labels and a second one verifies the result. A study can add reviews of
samples. The lead decides where people differ, as the paper's joint discussion does.

Only the first round may show frames after the recorded cut, up to the outcome of the step. Every
other form ends at the latest cut.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder
from lmms_egoplan.annotation.flow import (
    ADJUDICATION,
    Export,
    ExportedFile,
    Flow,
    Item,
    Labelled,
    Scale,
)
from lmms_egoplan.annotation.forms import (
    Choice,
    Contents,
    Field,
    Film,
    Form,
    Moment,
    Option,
    Prose,
    Values,
    Words,
)
from lmms_egoplan.annotation.study import Stage
from lmms_egoplan.benchmarks.egointent.prepare import duration_counts, record_footage
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, OUTCOME_KEY
from lmms_egoplan.benchmarks.egointent.records import (
    ENVIRONMENTS,
    Record,
    fields_of_keys,
    load,
    read_annotations,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines, read_csv
from lmms_egoplan.media.footage import warn_of_lost
from lmms_egoplan.media.frames import frame_times
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import csv_text
from lmms_egoplan.validation import is_text

AUDIT = "audit.csv"
_NONE = "n/a"
_TEXTS: dict[str, dict[str, Any]] = module_yaml(__file__)
_REVISE, _VERIFY, _REVIEW, _SUPPORTED = "revise", "verify", "review", "supported"
# Also the name of the round that asks nothing else.
_BOUNDARY = "boundary"
_CUT, _ENVIRONMENT, _SCENARIO = "end_sec", "environment", "scenario"
_LEVELS = ("yes", "no")
_YES_NO = (Option("yes", "Yes"), Option("no", "No"))
_REASONS = {name: Option(**option) for name, option in _TEXTS["reasons"].items()}
_REJECTIONS = tuple(option.value for option in _REASONS.values())
# Rejected for these reasons, a label is not supported by what is visible before the cut.
_UNSUPPORTED = tuple(_REASONS[name].value for name in ("hindsight", "video"))
_ENVIRONMENTS = tuple(Option(environment, environment.capitalize()) for environment in ENVIRONMENTS)


@dataclass(frozen=True)
class Rate:
    """A rate in percent or a time in seconds.

    Unknown values, and all values read from a file, are texts.

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
        return (
            f"{self.rate.replace('_', ' ')}: {self.value} ({self.count} of {self.of}; paper: "
            f"{paper})"
        )


def audit(
    revisions: Sequence[tuple[dict[str, str], dict[str, Any]]],
    boundaries: Sequence[bool],
    supported: Sequence[Sequence[bool]],
    moves: Sequence[float],
    durations: Sequence[float],
    rejections: Sequence[str] = (),
) -> list[Rate]:
    """Compute the rates of sec. 3.3 and the durations of sec. 3.4.

    Args:
        revisions: For each revised step, the candidates and the first person's values.
        boundaries: For each reviewed step, whether its outcome is not yet visible at the cut.
        supported: For each reviewed step, the verdicts on whether its three labels are supported.
        moves: For each finished step, the seconds from the original cut to the final one. Negative
            for an earlier cut, 0 for an unmoved one.
        durations: Durations of the finished steps, seconds.
        rejections: The reason for each label that a verifier or reviewer rejected: values of the
            verdict's options.
    """
    moved = [abs(seconds) for seconds in moves if seconds]
    rates = [
        _share(
            f"candidates_rewritten_for_hindsight_{field}",
            [
                values[f"supported_{field}"] == "no" and values[field] != labels[field]
                for labels, values in revisions
            ],
        )
        for field in FIELDS
    ]
    rates.append(
        _share(
            "labels_supported_before_the_cut", [verdict for step in supported for verdict in step]
        )
    )
    rates.append(_share("steps_with_all_labels_supported", [all(step) for step in supported]))
    rates += [
        _share(f"rejected_for_{name}", [x == reason.value for x in rejections])
        for name, reason in _REASONS.items()
    ]
    rates.append(_share("cuts_moved", [bool(seconds) for seconds in moves]))
    rates.append(_share("cuts_moved_earlier", [seconds < 0 for seconds in moves]))
    rates.append(_share("cuts_moved_later", [seconds > 0 for seconds in moves]))
    rates.append(_share("outcome_not_yet_visible", boundaries))
    for name, statistic in (("median", median), ("mean", fmean)):
        value = round(statistic(moved), 3) if moved else _NONE
        rates.append(_rate(f"{name}_adjustment_sec", value, len(moved), len(moves)))
    counts = duration_counts(durations) if durations else {}
    for name in ("median", "mean", "p75"):
        rates.append(
            _rate(
                f"{name}_duration_sec",
                counts.get(f"{name}_sec", _NONE),
                len(durations),
                len(durations),
            )
        )
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
        raise LmmsEgoplanError(
            f"{path}: no such file; export the labels first: lmms-egoplan annotate export --help"
        )
    names = [field.name for field in fields(Rate)]
    header, *rows = [cells for _, cells in read_csv(path, "audit")] or [[]]
    if header != names:
        raise LmmsEgoplanError(
            f"{path}: expected the columns {', '.join(names)}; export the labels again"
        )
    if any(len(row) != len(names) for row in rows):
        raise LmmsEgoplanError(
            f"{path}: a line has more or fewer values than columns; export the labels again"
        )
    return [Rate(*row) for row in rows]


def _share(name: str, verdicts: Sequence[bool]) -> Rate:
    return _rate(name, _percent(sum(verdicts), len(verdicts)), sum(verdicts), len(verdicts))


def _percent(count: int, of: int) -> float | str:
    return round(100 * count / of, 1) if of else _NONE


def _rate(name: str, value: float | str, count: int, of: int) -> Rate:
    paper = _TEXTS["paper"].get(name, {})
    printed = f"{paper['count']:,} of {paper['of']:,}" if "count" in paper else ""
    paper_value = _percent(paper["count"], paper["of"]) if printed else paper.get("paper", _NONE)
    return Rate(name, value, count, of, paper_value, printed, paper.get("where", ""))


def read_items(annotations: Path, videos: Path, *, skip_missing: bool = False) -> list[Item]:
    """Read steps to revise.

    Args:
        annotations: Steps in the format of FORMAT.md. A key such as ``next_step_candidates`` adds
            alternative texts for its label. Annotators also name the place if it is unknown, or if
            a step that is not from Goal-Step has such a key. With `OUTCOME_KEY`, the first round
            can also move the cut to a later frame before this time.
        videos: Folder with ``<video_id>.mp4``.
        skip_missing: Skip steps without frames.

    Raises:
        LmmsEgoplanError: The annotations are invalid, or frames are missing.
    """
    records = read_annotations(annotations)
    footage, missing = record_footage(records, videos, skip_missing=skip_missing)
    warn_of_lost(missing)
    return [
        _item(record, footage[record.step_id].path, raw.value, f"{annotations}, {raw.location}")
        for record, raw in zip(records, load(annotations), strict=True)
        if record.step_id in footage
    ]


class RevisedSteps(Flow):
    """Revise the labels and cuts of steps, verify them, and review samples of them."""

    name = "egointent"
    title = "EgoIntent: revise steps"
    stages = (
        Stage(_REVISE, "Revision", 1),
        Stage(_VERIFY, "Verification by a second person", 1),
        Stage(_REVIEW, "Review", is_default=False),
        Stage(_SUPPORTED, "Supportability review", is_default=False),
        Stage(_BOUNDARY, "Boundary review", is_default=False),
    )
    agreement_stage = _REVIEW

    def guide_to(self, contents: Contents) -> Sequence[str]:
        """Return the guide with the item's names for the labels."""
        return [paragraph.format(**contents["titles"]) for paragraph in super().guide_to(contents)]

    def form(
        self, contents: Contents, earlier: Sequence[Values] = (), _order: int = 0, stage: str = ""
    ) -> Form:
        """Show the clip up to the latest cut, and ask what the stage asks, preset to the latest
        texts.

        Only the stage ``revise`` shows the frames between the recorded cut and the outcome. Without
        a stage, the form is that of the revision without these frames; with `earlier`, that of the
        verification.
        """
        current, is_first = _current(contents, earlier), stage == _REVISE
        kind = stage if stage in (_SUPPORTED, _BOUNDARY) else "check"
        if is_first or not (earlier or stage in (_VERIFY, _REVIEW, ADJUDICATION, kind)):
            kind = _REVISE
        times, end = [*contents["times"], *contents.get("after", ())], current[_CUT]
        count = len(times) if is_first else bisect_left(times, end)
        clip = Cut(
            contents["video"],
            tuple(range(contents["first"], contents["first"] + count)),
            contents["fps"],
        )
        # The cut can move to any frame after the clip's first one, and stay where it is.
        cuts = tuple(sorted({*times[1:count], end}))
        ends = "later" if cuts[-1] > end else "earlier"
        fields: list[Field] = []
        if kind in ("check", _BOUNDARY):
            fields.append(
                Choice(
                    _BOUNDARY,
                    _TEXTS["questions"][_BOUNDARY],
                    _YES_NO,
                    help=_TEXTS["boundary"][kind],
                )
            )
        if kind in (_REVISE, "check"):
            help_ = _TEXTS["end"][ends].format(end=contents["end_sec"])
            fields.append(
                Moment(
                    _CUT, "End of the clip", cuts, end, times[0], 1 / contents["fps"], help=help_
                )
            )
        for field in FIELDS if kind != _BOUNDARY else ():
            text, title, verdict = current[field], contents["titles"][field], f"supported_{field}"
            options = (_YES_NO[0], *_REASONS.values()) if kind == "check" else _YES_NO
            help_ = f"{'Candidate' if kind == _REVISE else 'Label'}: {text}"
            fields.append(
                Choice(verdict, f"{title}: {_TEXTS['questions'][kind]}", options, help=help_)
            )
            candidates = contents.get("candidates", {}).get(field, ()) if kind == _REVISE else ()
            # Reviewers rewrite only what they reject. Hence a label that they keep is unchanged.
            applies = (verdict, _REJECTIONS) if stage == _REVIEW else None
            if kind != _SUPPORTED:
                fields.append(
                    Words(
                        field,
                        title,
                        text,
                        tuple(dict.fromkeys((text, *candidates))),
                        applies=applies,
                    )
                )
        if contents.get("place") and kind in (_REVISE, "check"):
            environment, scenario = current[_ENVIRONMENT] or "", current[_SCENARIO] or ""
            fields.append(
                Choice(_ENVIRONMENT, "Indoor or outdoor?", _ENVIRONMENTS, initial=environment)
            )
            fields.append(
                Words(_SCENARIO, "Place", scenario, help="Such as kitchen, garage or yard.")
            )
        intent = Prose(contents["titles"][FIELDS[0]], current[FIELDS[0]])
        return Form(
            (Film(_TEXTS["film"][ends], clip), *([intent] if kind == _BOUNDARY else [])),
            tuple(fields),
        )

    def scales(self) -> Sequence[Scale]:
        """Return the scales for the reviewers' agreement: each label kept, each label supported,
        and the boundary.
        """
        scales = []
        for name in FIELDS:
            title, verdict = name.replace("_", " ").capitalize(), f"supported_{name}"
            scales.append(
                Scale(f"{title}: kept as it is", _LEVELS, partial(_answer, verdict, _REJECTIONS))
            )
            scales.append(
                Scale(f"{title}: supported", _LEVELS, partial(_answer, verdict, _UNSUPPORTED))
            )
        return [
            *scales,
            Scale("Outcome not yet visible", _LEVELS, partial(_answer, _BOUNDARY, ("no",))),
        ]

    def differ(self, item: Item, labels: Sequence[Values]) -> bool:
        """Return whether someone objects to the latest labels or cut, or changes them.

        If there are reviews, they decide on the version after the verification. Without reviews,
        verifiers decide on the revision.
        """
        revised = [values for values in labels if FIELDS[0] in values and _BOUNDARY not in values]
        is_reviewed = any(_is_review(values) for values in labels)
        verified = [
            values
            for values in labels
            if FIELDS[0] in values and _BOUNDARY in values and not _is_review(values)
        ]
        accepted = [*revised[:1], *(verified[:1] if is_reviewed else [])]
        deciding = [values for values in labels if values not in accepted]
        latest = _current(item.contents, accepted)
        return any(
            _objects(values) or _current(item.contents, [*accepted, values]) != latest
            for values in deciding
        )

    def export(self, labelled: Labelled) -> Export:
        """Export ``steps.jsonl`` in the format of FORMAT.md, and ``audit.csv`` with the rates that
        the paper prints.
        """
        finals, remarks = self._finals(labelled)
        files = {}
        if finals:
            files["steps.jsonl"] = ExportedFile(
                json_lines(finals), "finished steps, for data prepare egointent"
            )
        rates = audit_csv(_audit(labelled, finals))
        files[AUDIT] = ExportedFile(
            rates, "rates of changed labels and cuts, for audit egointent-labels"
        )
        lines = [
            f"Steps revised and verified: {len(finals)} of {len(labelled.items)}",
            *remarks,
            _sources(labelled),
        ]
        return Export(lines, files)

    def remarks(self, labelled: Labelled) -> list[str]:
        """Return the audit's rates, and the rounds that they are from."""
        return [
            *(str(rate) for rate in _audit(labelled, self._finals(labelled)[0])),
            _sources(labelled),
        ]

    def _finals(self, labelled: Labelled) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the finished steps, and remarks on all other steps."""
        settled, remarks = labelled.settled(self, "not yet labelled in all rounds", "people differ")
        # The lead's decision, or else all rounds: later ones may change nothing.
        return [
            _final(item, [label.values for label in labels]) for item, labels in settled
        ], remarks

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all steps of the set."""
        return read_items(source / "steps.jsonl", source / "videos")


FLOW = RevisedSteps()


def _audit(labelled: Labelled, steps: Sequence[Mapping[str, Any]]) -> list[Rate]:
    """Compute the audit.

    The rounds ``supported`` and ``boundary`` count if the study has them. Otherwise, the first
    verdict of the verification counts, or of the review if there is none; the lead's verdicts on
    labels replace it.
    """
    revisions = [
        (item.contents["labels"], labels[0].values)
        for item in labelled.items
        if (labels := labelled.of(item, _REVISE))
    ]
    checks = {
        item.id: [*labelled.of(item, _VERIFY), *labelled.of(item, _REVIEW)]
        for item in labelled.items
    }
    verified = {item_id: labels[0].values for item_id, labels in checks.items() if labels}
    decided = {
        item.id: label.values for item in labelled.items if (label := labelled.adjudicated(item))
    }
    judged = (
        _values(labelled, _SUPPORTED)
        if _SUPPORTED in _rounds(labelled)
        else [*(verified | decided).values()]
    )
    supported = [
        [values[f"supported_{field}"] not in _UNSUPPORTED for field in FIELDS] for values in judged
    ]
    bounded = (
        _values(labelled, _BOUNDARY) if _BOUNDARY in _rounds(labelled) else [*verified.values()]
    )
    boundaries = [values[_BOUNDARY] == "yes" for values in bounded]
    verdicts = [
        label.values[f"supported_{field}"]
        for labels in checks.values()
        for label in labels
        for field in FIELDS
    ]
    durations = [step["end_sec"] - step["start_sec"] for step in steps]
    original = {item.id: item.contents["end_sec"] for item in labelled.items}
    moves = [step["end_sec"] - original[step["step_id"]] for step in steps]
    return audit(
        revisions,
        boundaries,
        supported,
        moves,
        durations,
        [x for x in verdicts if x in _REJECTIONS],
    )


def _sources(labelled: Labelled) -> str:
    """Say which rounds the rates of support and boundary are from."""
    names = [stage if stage in _rounds(labelled) else _VERIFY for stage in (_SUPPORTED, _BOUNDARY)]
    return (
        "Rates of support are from the round {}, the rate of visible outcomes from the round {}"
    ).format(*names)


def _rounds(labelled: Labelled) -> set[str]:
    return {one.name for one in labelled.study.rounds}


def _values(labelled: Labelled, stage: str) -> list[Values]:
    return [label.values for item in labelled.items for label in labelled.of(item, stage)]


def _answer(name: str, noes: Collection[str], values: Values) -> str | None:
    """Return a verdict as yes or no; None without one."""
    return None if name not in values else "no" if values[name] in noes else "yes"


def _objects(values: Values) -> bool:
    """Return whether a label rejects the cut or a label."""
    verdicts = [
        values.get(name, "yes") for name in (_BOUNDARY, *(f"supported_{field}" for field in FIELDS))
    ]
    return any(verdict != "yes" for verdict in verdicts)


def _is_review(values: Values) -> bool:
    """Return whether a label has the form of the stage ``review``: a text for each rejected label,
    and for no other.

    This is also true of a verification that rejects all labels.
    """
    return _BOUNDARY in values and all(
        (values.get(f"supported_{field}") != "yes") == (field in values) for field in FIELDS
    )


def _current(contents: Mapping[str, Any], labels: Sequence[Values]) -> Values:
    """Return texts, cut and place after these labels, oldest first. A label may have some of them."""
    current = contents["labels"] | contents.get("place", {}) | {_CUT: contents["end_sec"]}
    for values in labels:
        current |= {name: values[name] for name in current if name in values}
    return current


def _item(record: Record, video: Path, raw: Mapping[str, Any], where: str) -> Item:
    # The file's key for each field.
    names = dict(zip(FIELDS, FIELDS, strict=True))
    names |= {field: key for key, field in fields_of_keys(raw).items() if field in names}
    times = frame_times(video)
    cuts = (record.start_sec, record.end_sec, _outcome_sec(record, raw, where))
    first, stop, outcome = (bisect_left(times, seconds) for seconds in cuts)
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
    # Other steps must not get these keys: they would change the items of existing databases.
    if outcome > stop:
        contents["after"] = [float(time) for time in times[stop:outcome]]
    candidates = {
        field: texts for field in FIELDS if (texts := _texts(raw.get(f"{names[field]}_candidates")))
    }
    if candidates:
        contents["candidates"] = candidates
    if (candidates and not record.is_goalstep) or record.environment is None:
        contents["place"] = {name: getattr(record, name) for name in (_ENVIRONMENT, _SCENARIO)}
    fixed = {
        key: value
        for key, value in record.model_dump().items()
        if key not in FIELDS and value is not None
    }
    return Item(record.step_id, contents, {"record": fixed, "names": names}, ("video",))


def _outcome_sec(record: Record, raw: Mapping[str, Any], where: str) -> float:
    """Return the time up to which the first round may move the cut: that of the outcome if it is
    known, or the cut.

    Raises:
        LmmsEgoplanError: The time is invalid, or before the cut.
    """
    seconds = record.end_sec if raw.get(OUTCOME_KEY) is None else raw[OUTCOME_KEY]
    if isinstance(seconds, int | float) and record.end_sec <= seconds < math.inf:
        return seconds
    raise LmmsEgoplanError(
        f"{where}, step_id {record.step_id!r}, {OUTCOME_KEY}: expected seconds, at least end_sec "
        f"{record.end_sec}; "
        f"found {seconds!r}. Correct or remove it"
    )


def _texts(raw: Any) -> list[str]:
    """Return the texts of a list; an empty list for anything else."""
    return [text for text in raw if is_text(text)] if isinstance(raw, list) else []


def _final(item: Item, labels: Sequence[Values]) -> dict[str, Any]:
    # Do not round the cut: rounding up would admit another frame.
    final = _current(item.contents, labels)
    names = item.hidden["names"]
    return (
        item.hidden["record"]
        | {names.get(name, name): value for name, value in final.items()}
        | {"unverified": False}
    )
