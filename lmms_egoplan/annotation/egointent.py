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
from functools import partial
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.clips import Cut, MediaFolder
from lmms_egoplan.annotation.egointent_audit import AUDIT, REJECTIONS, Rate, audit, audit_csv
from lmms_egoplan.annotation.flow import (
    ADJUDICATION,
    Export,
    ExportedFile,
    Flow,
    Item,
    Labelled,
    Scale,
    all_values,
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
from lmms_egoplan.benchmarks.egointent.annotation_files import fields_of_keys, load
from lmms_egoplan.benchmarks.egointent.prepare import record_footage
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, OUTCOME_KEY
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, Record, read_annotations
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.media.footage import warn_of_missing_footage
from lmms_egoplan.media.frames import frame_times
from lmms_egoplan.validation import is_text

_REVISE = "revise"
_VERIFY = "verify"
_REVIEW = "review"
_SUPPORTED = "supported"
# Also the name of the field with the verdict on the cut.
_BOUNDARY = "boundary"
# The rounds that give a step its values. Nobody judges values of their own, but reviewers may have
# reviewed the step before. This is the project's choice: sec. 3.3 does not say who reviews.
_VALUES_FROM = (_REVISE, _VERIFY)
# A kind of form: that of the rounds in which people check another person's labels.
_CHECK = "check"
# Names of other fields.
_CUT = "end_sec"
_ENVIRONMENT = "environment"
_SCENARIO = "scenario"

_LEVELS = ("yes", "no")
_YES = Option("yes", "Yes")
_YES_NO = (_YES, Option("no", "No"))
_REJECTING = (
    Option(REJECTIONS["hindsight"], "No: it depends on what comes after the end"),
    Option(REJECTIONS["confusion"], "No: confused with another of the three labels"),
    Option(REJECTIONS["abstraction"], "No: too abstract or too concrete"),
    Option(REJECTIONS["video"], "No: the video shows something else"),
    Option(REJECTIONS["other"], "No: another reason"),
)
_REJECTIONS = tuple(option.value for option in _REJECTING)
# Rejected for these reasons, a label is not supported by what is visible before the cut.
_UNSUPPORTED = (REJECTIONS["hindsight"], REJECTIONS["video"])
_ENVIRONMENTS = tuple(Option(environment, environment.capitalize()) for environment in ENVIRONMENTS)
# Questions about a label, by kind of form. The first-round verification of sec. 3.3 and the
# reviewers' check have the same question: the guide names its three criteria.
_LABEL_QUESTIONS = {
    _REVISE: "supported before the end?",
    _CHECK: "keep it?",
    _SUPPORTED: "valid without what comes after the end?",
}


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
    warn_of_missing_footage(missing)
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
        Stage(_SUPPORTED, "Supportability review", is_default=False, apart=_VALUES_FROM),
        Stage(_BOUNDARY, "Boundary review", is_default=False, apart=_VALUES_FROM),
    )
    agreement_stage = _REVIEW

    def guide_to(self, contents: Contents) -> Sequence[str]:
        """Return the guide with the item's names for the labels."""
        return [paragraph.format(**contents["titles"]) for paragraph in super().guide_to(contents)]

    def form(
        self, contents: Contents, earlier: Sequence[Values] = (), _order: int = 0, stage: str = ""
    ) -> Form:
        """Show the clip up to the latest cut, and ask what the stage asks.

        Texts are preset to the latest ones. Only the stage ``revise`` shows the frames between the
        recorded cut and the outcome. Without a stage, the form is that of the revision without
        these frames; with `earlier`, that of the verification.
        """
        current = _current(contents, earlier)
        kind = _kind_of_form(stage, has_earlier=bool(earlier))
        end = current[_CUT]
        times = [*contents["times"], *contents.get("after", ())]
        count = len(times) if stage == _REVISE else bisect_left(times, end)
        # The cut can move to any frame after the clip's first one, and stay where it is.
        cuts = tuple(sorted({*times[1:count], end}))
        is_after_end_shown = cuts[-1] > end
        frames = tuple(range(contents["first"], contents["first"] + count))
        film_title = "Step, with frames after the recorded end" if is_after_end_shown else "Step"
        film = Film(film_title, Cut(contents["video"], frames, contents["fps"]))
        if kind == _BOUNDARY:
            intent = Prose(contents["titles"][FIELDS[0]], current[FIELDS[0]])
            return Form((film, intent), (_boundary_field(kind),))
        fields: list[Field] = []
        if kind == _CHECK:
            fields.append(_boundary_field(kind))
        if kind in (_REVISE, _CHECK):
            fields.append(_cut_field(contents, cuts, end, is_after_end_shown=is_after_end_shown))
        for name in FIELDS:
            fields += _label_fields(contents, current, name, kind, stage)
        if contents.get("place") and kind in (_REVISE, _CHECK):
            fields += _place_fields(current)
        return Form((film,), tuple(fields))

    def scales(self, labelled: Labelled) -> Sequence[Scale]:
        """Return the scales for the reviewers' agreement.

        For each label, whether it is kept and whether it is supported; and for the boundary.
        """
        scales = []
        for name, title in _titles(labelled.items).items():
            verdict = f"supported_{name}"
            is_kept = partial(_answer, verdict, _REJECTIONS)
            is_supported = partial(_answer, verdict, _UNSUPPORTED)
            scales.append(Scale(f"{title}: kept as it is", _LEVELS, is_kept))
            scales.append(Scale(f"{title}: supported", _LEVELS, is_supported))
        is_not_visible = partial(_answer, _BOUNDARY, ("no",))
        return [*scales, Scale("Outcome not yet visible", _LEVELS, is_not_visible)]

    def differ(self, item: Item, rounds: Mapping[str, Sequence[Values]]) -> bool:
        """Return whether someone objects to the latest labels or cut, or changes them.

        If there are reviews, they decide on the version after the verification. Without reviews,
        verifiers decide on the revision.
        """
        accepted = [*rounds.get(_REVISE, ())][:1]
        if _REVIEW in rounds:
            accepted += [*rounds.get(_VERIFY, ())][:1]
        latest = _current(item.contents, accepted)
        for values in all_values(rounds):
            if values in accepted:
                continue
            if _objects(values) or _current(item.contents, [*accepted, values]) != latest:
                return True
        return False

    def export(self, labelled: Labelled) -> Export:
        """Export ``steps.jsonl`` in the format of FORMAT.md, and ``audit.csv``.

        The audit has the rates that the paper prints.
        """
        finals, remarks = self._finals(labelled)
        files = {}
        if finals:
            files["steps.jsonl"] = ExportedFile(
                json_lines(finals), "finished steps, for data prepare egointent"
            )
        files[AUDIT] = ExportedFile(
            audit_csv(_audit(labelled, finals)),
            "rates of changed labels and cuts, for audit egointent-labels",
        )
        summary = f"Steps revised and verified: {len(finals)} of {len(labelled.items)}"
        return Export([summary, *remarks, _sources(labelled)], files)

    def remarks(self, labelled: Labelled) -> list[str]:
        """Return the audit's rates, and the rounds that they are from."""
        finals, _ = self._finals(labelled)
        rates = [str(rate) for rate in _audit(labelled, finals)]
        return [*rates, _sources(labelled)]

    def _finals(self, labelled: Labelled) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the finished steps, and remarks on all other steps."""
        settled, remarks = labelled.settled(self, "not yet labelled in all rounds", "people differ")
        finals = []
        for item, labels in settled:
            # The lead's decision, or else all rounds: later ones may change nothing.
            finals.append(_final(item, [label.values for label in labels]))
        return finals, remarks

    def demo_items(self, source: Path, _folder: MediaFolder) -> list[Item]:
        """Return all steps of the set."""
        return read_items(source / "steps.jsonl", source / "videos")


FLOW = RevisedSteps()


def _kind_of_form(stage: str, *, has_earlier: bool) -> str:
    """Return the kind of a stage's form.

    A kind is one of `_REVISE`, `_CHECK`, `_SUPPORTED` and `_BOUNDARY`.
    """
    if stage in (_REVISE, _SUPPORTED, _BOUNDARY):
        return stage
    if has_earlier or stage in (_VERIFY, _REVIEW, ADJUDICATION):
        return _CHECK
    return _REVISE


def _boundary_field(kind: str) -> Choice:
    """Ask whether the clip ends early enough."""
    advice = "The key outcome of the step must not be clearly visible yet."
    if kind == _CHECK:
        advice += " If it is, move the end."
    return Choice(_BOUNDARY, "Does the clip end before the key outcome?", _YES_NO, help=advice)


def _cut_field(
    contents: Contents, cuts: tuple[float, ...], end: float, *, is_after_end_shown: bool
) -> Moment:
    """Ask for the end of the clip."""
    if is_after_end_shown:
        advice = (
            f"The recorded end is at {contents['end_sec']:.3f} s. The clip continues after it, up "
            "to the outcome of the step. Only this round shows these frames: models and reviewers "
            "never see a frame after the end that you set. You can move the end both ways."
        )
    else:
        advice = "You can move it to an earlier frame. Later frames are not in the clip."
    return Moment(
        _CUT,
        "End of the clip",
        times=cuts,
        initial=end,
        start=contents["times"][0],
        step=1 / contents["fps"],
        help=advice,
    )


def _label_fields(
    contents: Contents, current: Values, name: str, kind: str, stage: str
) -> list[Field]:
    """Ask for a verdict on a label, and for its text."""
    text = current[name]
    title = contents["titles"][name]
    verdict = f"supported_{name}"
    fields: list[Field] = [
        Choice(
            verdict,
            f"{title}: {_LABEL_QUESTIONS[kind]}",
            (_YES, *_REJECTING) if kind == _CHECK else _YES_NO,
            help=f"{'Candidate' if kind == _REVISE else 'Label'}: {text}",
        )
    ]
    if kind == _SUPPORTED:
        return fields
    candidates = [text]
    if kind == _REVISE:
        candidates += contents.get("candidates", {}).get(name, ())
    fields.append(
        Words(
            name,
            title,
            initial=text,
            candidates=tuple(dict.fromkeys(candidates)),
            # Reviewers rewrite only what they reject. Hence a label that they keep is unchanged.
            applies=(verdict, _REJECTIONS) if stage == _REVIEW else None,
        )
    )
    return fields


def _place_fields(current: Values) -> list[Field]:
    """Ask for the place."""
    return [
        Choice(
            _ENVIRONMENT, "Indoor or outdoor?", _ENVIRONMENTS, initial=current[_ENVIRONMENT] or ""
        ),
        Words(
            _SCENARIO,
            "Place",
            initial=current[_SCENARIO] or "",
            help="Such as kitchen, garage or yard.",
        ),
    ]


def _audit(labelled: Labelled, steps: Sequence[Mapping[str, Any]]) -> list[Rate]:
    """Compute the audit.

    The rounds ``supported`` and ``boundary`` count if the study has them. Otherwise, the first
    verdict of the verification counts, or of the review if there is none; the lead's verdicts on
    labels replace it.
    """
    revisions = []
    first_checks: dict[str, Values] = {}
    decisions: dict[str, Values] = {}
    rejections: list[str] = []
    original_cuts = {}
    for item in labelled.items:
        original_cuts[item.id] = item.contents["end_sec"]
        revision = labelled.labels_of(item, _REVISE)
        if revision:
            revisions.append((item.contents["labels"], revision[0].values))
        checks = [*labelled.labels_of(item, _VERIFY), *labelled.labels_of(item, _REVIEW)]
        if checks:
            first_checks[item.id] = checks[0].values
        for label in checks:
            rejections += [verdict for verdict in _verdicts(label.values) if verdict in _REJECTIONS]
        decision = labelled.adjudicated(item)
        if decision:
            decisions[item.id] = decision.values
    judged = [*(first_checks | decisions).values()]
    if _SUPPORTED in _rounds(labelled):
        judged = _values(labelled, _SUPPORTED)
    bounded = [*first_checks.values()]
    if _BOUNDARY in _rounds(labelled):
        bounded = _values(labelled, _BOUNDARY)
    supported = []
    for values in judged:
        supported.append([verdict not in _UNSUPPORTED for verdict in _verdicts(values)])
    titles = _titles(labelled.items)
    return audit(
        {field: title.lower().replace(" ", "_") for field, title in titles.items()},
        revisions,
        boundaries=[values[_BOUNDARY] == "yes" for values in bounded],
        supported=supported,
        moves=[step["end_sec"] - original_cuts[step["step_id"]] for step in steps],
        durations=[step["end_sec"] - step["start_sec"] for step in steps],
        rejections=rejections,
    )


def _titles(items: Sequence[Item]) -> dict[str, str]:
    """Return the steps' name for each label: ``Global intent`` only in version 1.

    Names of steps from several versions are joined.
    """
    titles = {}
    for field in FIELDS:
        distinct = dict.fromkeys(item.contents["titles"][field] for item in items)
        titles[field] = " or ".join(distinct)
    return titles


def _verdicts(values: Values) -> list[str]:
    """Return a label's verdicts on the three texts."""
    return [values[f"supported_{field}"] for field in FIELDS]


def _sources(labelled: Labelled) -> str:
    """Say which rounds the rates of support and boundary are from."""
    rounds = _rounds(labelled)
    support = _SUPPORTED if _SUPPORTED in rounds else _VERIFY
    boundary = _BOUNDARY if _BOUNDARY in rounds else _VERIFY
    return (
        f"Rates of support are from the round {support}, the rate of visible outcomes from the "
        f"round {boundary}"
    )


def _rounds(labelled: Labelled) -> set[str]:
    return {round_.name for round_ in labelled.study.rounds}


def _values(labelled: Labelled, stage: str) -> list[Values]:
    return [label.values for item in labelled.items for label in labelled.labels_of(item, stage)]


def _answer(name: str, noes: Collection[str], values: Values) -> str | None:
    """Return a verdict as yes or no; None without one."""
    if name not in values:
        return None
    return "no" if values[name] in noes else "yes"


def _objects(values: Values) -> bool:
    """Return whether a label rejects the cut or a label."""
    verdicts = [values.get(_BOUNDARY, "yes")]
    verdicts += [values.get(f"supported_{field}", "yes") for field in FIELDS]
    return any(verdict != "yes" for verdict in verdicts)


def _current(contents: Mapping[str, Any], labels: Sequence[Values]) -> Values:
    """Return texts, cut and place after labels that are sorted by time.

    Each label may have some of these fields.
    """
    current = contents["labels"] | contents.get("place", {}) | {_CUT: contents["end_sec"]}
    for values in labels:
        current |= {name: values[name] for name in current if name in values}
    return current


def _item(record: Record, video: Path, raw: Mapping[str, Any], where: str) -> Item:
    # The file's key for each field.
    names = {field: field for field in FIELDS}
    names |= {field: key for key, field in fields_of_keys(raw).items() if field in names}
    times = frame_times(video)
    first = bisect_left(times, record.start_sec)
    stop = bisect_left(times, record.end_sec)
    outcome = bisect_left(times, _outcome_sec(record, raw, where))
    step_times = [float(time) for time in times[first:stop]]
    span = step_times[-1] - step_times[0]
    contents: dict[str, Any] = {
        "video": str(video),
        "first": first,
        "times": step_times,
        "fps": (len(step_times) - 1) / span if span else 1.0,
        "end_sec": record.end_sec,
        "labels": {field: getattr(record, field) for field in FIELDS},
        "titles": {field: re.sub("[-_]", " ", names[field]).capitalize() for field in FIELDS},
    }
    # Other steps must not get these keys: they would change the items of existing databases.
    if outcome > stop:
        contents["after"] = [float(time) for time in times[stop:outcome]]
    candidates = {}
    for field in FIELDS:
        texts = _texts(raw.get(f"{names[field]}_candidates"))
        if texts:
            candidates[field] = texts
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
    """Return the time up to which the first round may move the cut.

    That is the time of the outcome if it is known, else the cut.

    Raises:
        LmmsEgoplanError: The time is invalid, or before the cut.
    """
    seconds = raw.get(OUTCOME_KEY)
    if seconds is None:
        seconds = record.end_sec
    if isinstance(seconds, int | float) and record.end_sec <= seconds < math.inf:
        return seconds
    raise LmmsEgoplanError(
        f"{where}, step_id {record.step_id!r}, {OUTCOME_KEY}: expected seconds, at least end_sec "
        f"{record.end_sec}; found {seconds!r}. Correct or remove it"
    )


def _texts(raw: Any) -> list[str]:
    """Return the texts of a list; an empty list for anything else."""
    return [text for text in raw if is_text(text)] if isinstance(raw, list) else []


def _final(item: Item, labels: Sequence[Values]) -> dict[str, Any]:
    # Do not round the cut: rounding up would admit another frame.
    names = item.hidden["names"]
    final = _current(item.contents, labels)
    by_key = {names.get(name, name): value for name, value in final.items()}
    return item.hidden["record"] | by_key | {"unverified": False}
