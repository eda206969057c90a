"""From annotations and footage to the datasets that the tasks load, one function for each benchmark."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS, ReadyClip, find_clip
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, HUB, Question
from lmms_egoplan.benchmarks.egoplan.sources import Id, find_video, read_video_info, record_problem
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage, tell_of_lost
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.storage import PreparedData, compare_counts, fingerprint, refusal, table

if TYPE_CHECKING:
    from datasets import Dataset

# Questions and task goals in Table 2, the sources of the validation split in sec. 5.1.
PAPER_COUNTS: dict[str, dict[str, int]] = {
    "val": {"questions": EGOPLAN.official["val"], "task_goals": 2407, EPIC_KITCHENS: 2432, EGO4D: 923},
    "test": {"questions": EGOPLAN.official["test"], "task_goals": 902},
}
# Of lmms-eval's copy of EgoPlan-Bench2, nv-njb/egoplan-bench2.
_COPY_SIZE = 1435
_COLUMNS = (
    *("sample_id", "video_source", "video_id", "task_goal", "question", "choices", "golden_choice_idx", "answer"),
    *("current_observation_frame", "past_actions", "media_path", "split_size"),
)
_OPTIONS = {EPIC_KITCHENS: "--epic-kitchens", EGO4D: "--ego4d"}

Roots = Mapping[str, str | Path | None]
"""By source of videos, its folder; None where it is not given."""


@dataclass(frozen=True)
class Media:
    """Where the footage of questions is, and how to treat questions without it.

    roots: of the sources that the data set has; EPIC-KITCHENS' contains
        ``P01/rgb_frames/P01_13/frame_0000000760.jpg``, Ego4D's ``<video_id>.mp4``.
    clips: contains a ready-cut clip of each question (`clips.find_clip`), instead of the sources.
    epic_video_info: EPIC-KITCHENS-100's official list of videos (`sources.read_video_info`). With it, ids that it
        lacks, observations after a video's end and frames that were extracted at another rate count as missing.
    skip_missing: leave out questions whose frames are missing or damaged, instead of refusing.
    verify: decode every frame that any layout and frame count may read: from a question's first frame to its
        observation; of a ready clip, those that may be shown.
    """

    roots: Roots
    clips: str | Path | None = None
    epic_video_info: str | Path | None = None
    skip_missing: bool = False
    verify: bool = False

    def __post_init__(self) -> None:
        """Refuse clips together with sources."""
        if self.clips is not None and any(root is not None for root in self.roots.values()):
            options = " and ".join(_OPTIONS[source] for source in self.roots)
            raise LmmsEgoplanError(f"--clips stands in place of {options}: give either")


class FoundMedia(NamedTuple):
    """The footage by sample id, the questions without footage, a message about these, and warnings.

    is_verified: whether all frames were decoded.
    """

    footage: dict[Id, Footage]
    lost: list[Lost]
    message: str
    warnings: list[str]
    is_verified: bool


@dataclass(frozen=True)
class _DataSet:
    """What preparing one of the benchmarks needs to know of it.

    paper: by split, the counts in the paper; the first split has all counts.
    columns: those that the other benchmark does not have.
    """

    prepared: PreparedData
    paper: Mapping[str, Mapping[str, int]]
    columns: Sequence[str]

    def counts(self, questions: Sequence[Question]) -> dict[str, int]:
        """Count questions, the questions of each source, and different values of fields."""
        counts: dict[str, int] = {"questions": len(questions), **Counter(record.video_source for record in questions)}
        counts |= {name: len({getattr(record, of, None) for record in questions}) for name, of in _DISTINCT.items()}
        return {name: counts.get(name, 0) for name in next(iter(self.paper.values()))}


_DISTINCT = {"task_goals": "task_goal", "videos": "video_id", "domains": "domain", "scenarios": "scenario"}
_EGOPLAN = _DataSet(EGOPLAN, PAPER_COUNTS, ())
# The counts: abstract and sec. 3 of EgoPlan-Bench2.
_EGOPLAN_BENCH2 = _DataSet(
    EGOPLAN_BENCH2,
    {"test": {"questions": EGOPLAN_BENCH2.official["test"], "videos": 1113, "domains": 4, "scenarios": 24}},
    ("domain", "scenario", "first_frame"),
)


def prepare_egoplan(annotations: str | Path, split: records.Split, media: Media) -> dict[str, Any]:
    """Check annotations and media of EgoPlan-Bench, and write the split below the data root.

    Args:
        annotations: the official file; see `read_annotations`.

    Returns:
        The summary, see `_save`. ``counts`` has, for questions, task_goals and each source, the numbers ``prepared``,
        ``annotations``, ``paper`` (None if unknown) and ``matches``, whether file and paper agree (None likewise).

    Raises:
        LmmsEgoplanError: the annotations are wrong, or a folder or frames are missing; nothing is written.
    """
    questions = records.read_annotations(annotations, split)
    found = find_media(annotations, questions, media)
    return _save(_EGOPLAN, split, Path(annotations).resolve(), questions, found)


def prepare_egoplan_bench2(annotations: str | Path, media: Media) -> dict[str, Any]:
    """Check annotations and media of EgoPlan-Bench2, and write the split below the data root.

    Args:
        annotations: the official file, or `HUB`; see `read_bench2_annotations`.

    Returns:
        The summary, see `_save`. ``counts`` has, for questions, videos, domains and scenarios, the numbers
        ``prepared``, ``annotations``, ``paper`` and ``matches``, whether file and paper agree.

    Raises:
        LmmsEgoplanError: the annotations are wrong, or a folder or frames are missing; nothing is written.
    """
    questions = records.read_bench2_annotations(annotations)
    found = find_media(annotations, questions, media)
    if len(questions) == _COPY_SIZE:
        found.warnings.append(
            f"the file has {_COPY_SIZE:,} records, as lmms-eval's copy of the data set has (nv-njb/egoplan-bench2), "
            f"and the paper {EGOPLAN_BENCH2.official['test']:,} questions: accuracies over them do not compare "
            "with published ones"
        )
    source = HUB if str(annotations) == HUB else Path(annotations).resolve()
    return _save(_EGOPLAN_BENCH2, "test", source, questions, found)


def check_media(questions: Sequence[Question], roots: Roots, *, skip_missing: bool) -> dict[Id, Path]:
    """Return, by sample id, the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: a folder or frames are missing; with `skip_missing`, those of all questions.
    """
    media = find_media("annotations", questions, Media(roots, skip_missing=skip_missing))
    tell_of_lost(media.lost)
    return {sample_id: footage.path for sample_id, footage in media.footage.items()}


def find_media(annotations: str | Path, questions: Sequence[Question], media: Media) -> FoundMedia:
    """Look for the footage of each question.

    Args:
        annotations: the records' file, for messages.

    Raises:
        LmmsEgoplanError: a folder is missing, or frames are and `skip_missing` is false; with it, those of all
            questions.
    """
    videos = None if media.epic_video_info is None else read_video_info(Path(media.epic_video_info))
    if media.clips is None:
        _check_roots(questions, media)
    elif not Path(media.clips).is_dir():
        raise LmmsEgoplanError(f"--clips {media.clips}: no such folder; it holds <sample_id>.mp4")
    unfit: dict[Id, Footage | str] = {
        record.sample_id: f"{annotations}: record {index}, sample_id {record.sample_id}, {problem}"
        for index, record in enumerate(questions)
        if videos is not None
        and record.video_source == EPIC_KITCHENS
        and (problem := record_problem(record.video_id, record.current_observation_frame, videos))
    }
    warnings: list[str] = []

    def find(group: Sequence[Question]) -> dict[Id, Footage | str]:
        found = {record.sample_id: unfit[record.sample_id] for record in group if record.sample_id in unfit}
        fit = [record for record in group if record.sample_id not in unfit]
        if not fit:
            return found
        if media.clips is not None:
            return found | {record.sample_id: find_clip(media.clips, record) for record in fit}
        source = fit[0].video_source
        if (root := media.roots[source]) is None:
            raise FrameError(f"{_OPTIONS[source]} is not given")
        return found | find_video(root, fit, videos, warnings.append)

    video_of = attrgetter("video_source", "video_id" if media.clips is None else "sample_id")
    footage, lost = find_footage(questions, attrgetter("sample_id"), video_of, find, verify=media.verify)
    message = _missing_message(lost, len(questions), media) if lost else ""
    if lost and not (media.skip_missing and footage):
        raise LmmsEgoplanError(message)
    return FoundMedia(footage, lost, message, warnings, media.verify)


def _check_roots(questions: Sequence[Question], media: Media) -> None:
    """Check that each source of videos that questions need has a folder; one is enough to skip the others."""
    may_lack = media.skip_missing and any(root is not None for root in media.roots.values())
    for source, count in Counter(record.video_source for record in questions).items():
        root, download = media.roots[source], f"(download: {records.VIDEO_URLS[source]})"
        if root is None and not may_lack:
            raise LmmsEgoplanError(
                f"{count} of {len(questions)} questions need videos of {source}: give their folder with "
                f"{_OPTIONS[source]} DIR {download}, or --skip-missing to go without them"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(f"{_OPTIONS[source]} {root}: no such folder {download}")


def _missing_message(lost: Sequence[Lost], num_records: int, media: Media) -> str:
    per_source = Counter(source for (source, _), _, sample_ids in lost for _ in sample_ids)
    num_lost, state = per_source.total(), "missing or damaged" if media.verify else "missing"
    if media.clips is not None:
        lines = [f"the clips of {num_lost} of {num_records} questions in {media.clips} are {state} or do not fit:"]
        problems = [f"sample_id {sample_id}: {reason}" for (_, sample_id), reason, _ in lost]
        how = "add them, or go on without their questions"
    else:
        lines = [
            f"the frames of {num_lost} of {num_records} questions are {state}:",
            *(
                f"  {count} from {source} ({_OPTIONS[source]}; download: {records.VIDEO_URLS[source]})"
                for source, count in per_source.items()
            ),
            f"in {len({video for video, _, _ in lost})} videos:",
        ]
        problems = [f"{video_id} (questions: {len(ids)}): {reason}" for (_, video_id), reason, ids in lost]
        how = "add them, or go on without them"
    return refusal("\n".join(lines), problems, how, "question", skip_missing=media.skip_missing)


def _save(
    data: _DataSet, split: str, annotations: str | Path, questions: Sequence[Question], found: FoundMedia
) -> dict[str, Any]:
    """Write a split of questions.

    Args:
        annotations: where the questions are from, for the summary.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO
        8601), ``annotations``, ``split_size`` (questions in the file), ``questions`` (prepared),
        ``fingerprint`` (another text once a prepared question or its media have changed, see `Footage.version`),
        ``missing`` (for each video that lacks frames its ``video_source``, ``video``, ``reason`` and the
        ``sample_ids`` that it concerns), ``counts``, ``verified`` (true, where all frames were decoded), ``warnings``
        (absent without), ``media`` and ``clips`` (with ready clips alone: `READY_CLIPS`, and how many questions' clips
        have each `clips.Fit`, with the ids of those that are cut off under ``cut_off_ids``).
    """
    prepared = [record for record in questions if record.sample_id in found.footage]
    rows = [_row(record, found.footage[record.sample_id], data, len(questions)) for record in prepared]
    if all(record.origin is None for record in prepared):
        for row in rows:
            del row["origin"]
    return data.prepared.save(
        split,
        _dataset(rows, data.columns),
        annotations=str(annotations),
        split_size=len(questions),
        questions=len(rows),
        fingerprint=fingerprint([row, found.footage[row["sample_id"]].version] for row in rows),
        missing=[
            {"video_source": source, "video": str(video), "reason": reason, "sample_ids": sample_ids}
            for (source, video), reason, sample_ids in found.lost
        ],
        counts=compare_counts(data.counts(prepared), data.counts(questions), "annotations", data.paper[split]),
        **({"verified": True} if found.is_verified else {}),
        **({"warnings": found.warnings} if found.warnings else {}),
        **_clips_summary(found.footage),
    )


def _row(record: Question, footage: Footage, data: _DataSet, split_size: int) -> dict[str, Any]:
    """All fields of a record but the single choices, and what the tasks need beside them."""
    return (
        record.model_dump(exclude={*records.CHOICES})
        | {"choices": record.choices, "media_path": str(footage.path), "split_size": split_size}
        | {name: getattr(record, name) for name in data.columns}
        | ({"clip_frames": len(footage.frames)} if isinstance(footage, ReadyClip) else {})
    )


def _clips_summary(footage: Mapping[Id, Footage]) -> dict[str, Any]:
    clips = {sample_id: clip for sample_id, clip in footage.items() if isinstance(clip, ReadyClip)}
    if not clips:
        return {}
    cut_off = [sample_id for sample_id, clip in clips.items() if clip.fit == "cut off"]
    counts = dict(Counter(clip.fit for clip in clips.values()))
    return {"media": READY_CLIPS, "clips": counts, **({"cut_off_ids": cut_off} if cut_off else {})}


def _dataset(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "Dataset":
    from datasets import Value

    text, integer = Value("string"), Value("int64")
    names = [name for name in (*_COLUMNS, *columns, "clip_frames", "origin") if name in rows[0]]
    return table(
        [{name: row[name] for name in names} for row in rows],
        choices=[text],
        past_actions=[{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
    )
