"""Prepare the datasets that the tasks load, from annotations and footage.

Each benchmark has a function of its own.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS, UNTIMED, ReadyClip, find_clip
from lmms_egoplan.benchmarks.egoplan.copies import compare_observations, read_copy
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, HUB, Question
from lmms_egoplan.benchmarks.egoplan.sources import (
    Id,
    VideoInfo,
    Warn,
    find_video,
    read_video_info,
    record_problem,
)
from lmms_egoplan.benchmarks.egoplan.statistics import COUNTS, TABLE_2, statistics, texts_of
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import (
    Footage,
    MissingFootage,
    find_footage,
    warn_of_missing_footage,
)
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.storage import (
    PreparedData,
    compare_counts,
    fingerprint,
    records_digest,
    refusal,
    table,
)

if TYPE_CHECKING:
    from datasets import Dataset

_, *_VAL_COUNTS = TABLE_2[0]
_, *_TEST_COUNTS = TABLE_2[1]
PAPER_COUNTS: dict[str, dict[str, int]] = {
    "val": {**dict(zip(COUNTS, _VAL_COUNTS, strict=True)), EPIC_KITCHENS: 2432, EGO4D: 923},
    "test": dict(zip(COUNTS, _TEST_COUNTS, strict=True)),
}
"""Counts of Table 2, and of questions per source in the validation split (sec. 5.1)."""
# Number of records in lmms-eval's copy of EgoPlan-Bench2, nv-njb/egoplan-bench2.
_COPY_SIZE = 1435
_COLUMNS = (
    "sample_id",
    "video_source",
    "video_id",
    "task_goal",
    "question",
    "choices",
    "golden_choice_idx",
    "answer",
    "current_observation_frame",
    "past_actions",
    "media_path",
    "split_size",
    "question_set",
)
# Columns of ready clips and copies, and of questions that are not the benchmark's.
_OPTIONAL = ("clip_frames", "observation_path", "media", "has_action_times", "origin")
# Counts that the published file must have, if the paper states them.
_STATED = ("questions", EPIC_KITCHENS, EGO4D)
_OPTIONS = {EPIC_KITCHENS: "--epic-kitchens", EGO4D: "--ego4d"}

Roots = Mapping[str, str | Path | None]
"""Folder of each video source; None if it is not set."""


@dataclass(frozen=True)
class Media:
    """Location of the questions' footage, and how to treat questions without footage.

    Attributes:
        roots: Folder of each source in the data set. EPIC-KITCHENS' contains
            ``P01/rgb_frames/P01_13/frame_0000000760.jpg``, Ego4D's ``<video_id>.mp4``.
        clips: Folder with a ready-cut clip of each question (`clips.find_clip`), instead of the
            sources.
        epic_video_info: EPIC-KITCHENS-100's official list of videos (`sources.read_video_info`).
            With it, these count as missing: unlisted ids, observations after a video's end, and
            frames extracted at another rate.
        skip_missing: Skip questions with missing or damaged frames instead of raising an error.
        verify: Decode every frame that a task with any settings may read: from a question's first
            frame to its observation, or, in a ready clip, all frames that may be shown.
        copy: Name and folder of a public copy (`copies.read_copy`), instead of the sources. With
            sources, the observations of both are compared.
    """

    roots: Roots
    clips: str | Path | None = None
    epic_video_info: str | Path | None = None
    skip_missing: bool = False
    verify: bool = False
    copy: tuple[str, Path] | None = None

    def __post_init__(self) -> None:
        """Reject clips together with other media."""
        sources = " or ".join(_OPTIONS[source] for source in self.roots)
        for option, value in {"--copy": self.copy, sources: any(self.roots.values())}.items():
            if self.clips is not None and value:
                raise LmmsEgoplanError(
                    f"--clips cannot be combined with {option}; drop one of them"
                )


@dataclass(frozen=True)
class FootageIndex:
    """The footage of questions, as `find_media` finds it.

    Attributes:
        footage: Footage by sample id.
        lost: Questions without footage.
        message: Message about the questions without footage; empty if all have footage.
        warnings: Problems that may be harmless.
        is_verified: True if all frames were decoded.
        copy: The report of `copies.read_copy`; None without a copy.
    """

    footage: dict[Id, Footage]
    lost: list[MissingFootage]
    message: str
    warnings: list[str]
    is_verified: bool
    copy: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class _DataSet:
    """Facts about one benchmark that are needed to prepare it.

    Attributes:
        prepared: The benchmark's prepared data.
        paper: Counts in the paper by split. The first split has every count.
        columns: Columns that the other benchmark does not have.
    """

    prepared: PreparedData
    paper: Mapping[str, Mapping[str, int]]
    columns: Sequence[str]

    def counts(self, questions: Sequence[Question]) -> dict[str, int]:
        """Count the columns of Table 2, questions per source, and distinct values of fields."""
        in_table_2 = statistics(texts_of(question) for question in questions).counts
        counts: dict[str, Any] = dict(zip(COUNTS, in_table_2, strict=True))
        counts |= Counter(question.video_source for question in questions)
        for name, field in _DISTINCT.items():
            counts[name] = len({getattr(question, field, None) for question in questions})
        names = next(iter(self.paper.values()))
        return {name: counts.get(name, 0) for name in names}


_DISTINCT = {"videos": "video_id", "domains": "domain", "scenarios": "scenario"}
_EGOPLAN = _DataSet(EGOPLAN, PAPER_COUNTS, ())
# Counts from the abstract and sec. 3 of EgoPlan-Bench2.
_EGOPLAN_BENCH2 = _DataSet(
    EGOPLAN_BENCH2,
    {
        "test": {
            "questions": EGOPLAN_BENCH2.official["test"],
            "videos": 1113,
            "domains": 4,
            "scenarios": 24,
        }
    },
    ("domain", "scenario", "first_frame"),
)


def prepare_egoplan(annotations: str | Path, split: records.Split, media: Media) -> dict[str, Any]:
    """Check annotations and media of EgoPlan-Bench, and write the split below the data root.

    Args:
        annotations: The official file; see `read_annotations`.

    Returns:
        The summary, see `_save`. For the columns of Table 2 (`COUNTS`) and each source, ``counts``
        has the numbers ``prepared``, ``annotations`` and ``paper`` (None if unknown), and the flag
        ``matches``, which is true if file and paper agree (None if unknown).

    Raises:
        LmmsEgoplanError: The annotations are wrong, or a folder or frames are missing. Nothing is
            written.
    """
    questions = records.read_annotations(annotations, split)
    index = find_media(annotations, questions, media, f"egoplan {split}")
    return _save(_EGOPLAN, split, Path(annotations).resolve(), questions, index)


def prepare_egoplan_bench2(annotations: str | Path, media: Media) -> dict[str, Any]:
    """Check annotations and media of EgoPlan-Bench2, and write the split below the data root.

    Args:
        annotations: The official file, or `HUB`; see `read_bench2_annotations`.

    Returns:
        The summary, see `_save`. For questions, videos, domains and scenarios, ``counts`` has the
        numbers ``prepared``, ``annotations`` and ``paper``, and the flag ``matches``, which is true
        if file and paper agree.

    Raises:
        LmmsEgoplanError: The annotations are wrong, or a folder or frames are missing. Nothing is
            written.
    """
    questions = records.read_bench2_annotations(annotations)
    index = find_media(annotations, questions, media, "egoplan_bench2 test")
    if len(questions) == _COPY_SIZE:
        index.warnings.append(
            f"the file has {_COPY_SIZE:,} records, like lmms-eval's copy of the data set "
            f"(nv-njb/egoplan-bench2); the paper has {EGOPLAN_BENCH2.official['test']:,} "
            "questions. Accuracies are not comparable with published ones"
        )
    source = HUB if str(annotations) == HUB else Path(annotations).resolve()
    return _save(_EGOPLAN_BENCH2, "test", source, questions, index)


def check_media(
    questions: Sequence[Question], roots: Roots, *, skip_missing: bool
) -> dict[Id, Path]:
    """Return by sample id the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: A folder or frames are missing. With `skip_missing`, only if no question
            has all frames.
    """
    media = find_media("annotations", questions, Media(roots, skip_missing=skip_missing))
    warn_of_missing_footage(media.lost)
    return {sample_id: footage.path for sample_id, footage in media.footage.items()}


def find_media(
    annotations: str | Path, questions: Sequence[Question], media: Media, part: str = ""
) -> FootageIndex:
    """Find the footage of each question.

    Args:
        annotations: File of the records, for messages.
        part: Benchmark and split, only needed for a copy.

    Raises:
        LmmsEgoplanError: A folder is missing, or frames are missing and `skip_missing` is false.
            With `skip_missing`, only if no question has all frames.
    """
    videos = None
    if media.epic_video_info is not None:
        videos = read_video_info(Path(media.epic_video_info))
    copied = None
    copy = None
    if media.copy is not None:
        copied, copy = read_copy(*media.copy, part, questions)
        questions = [record for record in questions if record.sample_id in copied]
    else:
        _check_folders(questions, media)
    problems = _video_problems(annotations, questions, videos)
    warnings: list[str] = []

    def find(group: Sequence[Question]) -> dict[Id, Footage | str]:
        ids = {record.sample_id for record in group}
        results: dict[Id, Footage | str] = {key: problems[key] for key in problems if key in ids}
        valid = [record for record in group if record.sample_id not in problems]
        if copied is not None:
            results |= {record.sample_id: copied[record.sample_id] for record in valid}
        elif media.clips is not None:
            results |= {record.sample_id: find_clip(media.clips, record) for record in valid}
        elif valid:
            results |= _find_in_source(valid, media, videos, warnings.append)
        return results

    footage, lost = find_footage(
        questions, attrgetter("sample_id"), _file_of(media), find, verify=media.verify
    )
    message = _missing_message(lost, len(questions), media) if lost else ""
    if lost and not (media.skip_missing and footage):
        raise LmmsEgoplanError(message)
    if copy and any(media.roots.values()):
        sources = find_media(
            annotations, questions, replace(media, copy=None, skip_missing=True, verify=False)
        )
        copy["observations"] = compare_observations(footage, sources.footage)
    return FootageIndex(
        footage=footage,
        lost=lost,
        message=message,
        warnings=warnings,
        is_verified=media.verify,
        copy=copy,
    )


def _file_of(media: Media) -> Callable[[Question], tuple[str, Any]]:
    """Return a function for what identifies a question's file: its video, or its clip."""
    if media.clips is None and media.copy is None:
        return attrgetter("video_source", "video_id")
    return attrgetter("video_source", "sample_id")


def _video_problems(
    annotations: str | Path, questions: Sequence[Question], videos: Mapping[str, VideoInfo] | None
) -> dict[Id, str]:
    """Describe the questions that do not fit EPIC-KITCHENS' official list of videos."""
    problems: dict[Id, str] = {}
    if videos is None:
        return problems
    for index, record in enumerate(questions):
        if record.video_source != EPIC_KITCHENS:
            continue
        problem = record_problem(record.video_id, record.current_observation_frame, videos)
        if problem:
            where = f"{annotations}: record {index}, sample_id {record.sample_id}"
            problems[record.sample_id] = f"{where}, {problem}"
    return problems


def _find_in_source(
    group: Sequence[Question], media: Media, videos: Mapping[str, VideoInfo] | None, warn: Warn
) -> dict[Id, Footage | str]:
    """Find the footage of questions on one source video."""
    source = group[0].video_source
    root = media.roots[source]
    if root is None:
        raise FrameError(f"{_OPTIONS[source]} is not set")
    return find_video(root, group, videos, warn)


def _check_folders(questions: Sequence[Question], media: Media) -> None:
    """Check that the folder of clips exists, or that each needed video source has a folder.

    With `skip_missing`, one source is enough.
    """
    if media.clips is not None:
        if not Path(media.clips).is_dir():
            raise LmmsEgoplanError(
                f"--clips {media.clips}: no such folder; use the folder with <sample_id>.mp4"
            )
        return
    may_skip = media.skip_missing and any(root is not None for root in media.roots.values())
    for source, count in Counter(record.video_source for record in questions).items():
        root = media.roots[source]
        download = f"(download: {records.VIDEO_URLS[source]})"
        if root is None and not may_skip:
            raise LmmsEgoplanError(
                f"{count} of {len(questions)} questions need videos of {source}; set "
                f"{_OPTIONS[source]} DIR {download} or skip these questions with --skip-missing"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(f"{_OPTIONS[source]} {root}: no such folder {download}")


def _missing_message(lost: Sequence[MissingFootage], num_records: int, media: Media) -> str:
    """Describe the questions without footage, and the reason for each file."""
    per_source = Counter[str]()
    for (source, _), _, sample_ids in lost:
        per_source[source] += len(sample_ids)
    num_lost = per_source.total()
    state = "missing or damaged" if media.verify else "missing"
    folder = media.clips
    if media.copy and not folder:
        _, folder = media.copy
    if folder:
        lines = [
            f"the clips of {num_lost} of {num_records} questions in {folder} are {state} "
            "or do not fit:"
        ]
        problems = [f"sample_id {sample_id}: {reason}" for (_, sample_id), reason, _ in lost]
    else:
        lines = [f"the frames of {num_lost} of {num_records} questions are {state}:"]
        for source, count in per_source.items():
            download = records.VIDEO_URLS[source]
            lines.append(f"  {count} from {source} ({_OPTIONS[source]}; download: {download})")
        num_videos = len({video for video, _, _ in lost})
        lines.append(f"in {num_videos} videos:")
        problems = [
            f"{video_id} (questions: {len(ids)}): {reason}" for (_, video_id), reason, ids in lost
        ]
    how = "add them, or skip their questions"
    return refusal("\n".join(lines), problems, how, "question", skip_missing=media.skip_missing)


def _save(
    data: _DataSet,
    split: str,
    annotations: str | Path,
    questions: Sequence[Question],
    index: FootageIndex,
) -> dict[str, Any]:
    """Write a split of questions.

    Args:
        annotations: Origin of the questions, for the summary.

    Returns:
        The summary, which is also stored with the split:

        - ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601), ``annotations``
        - ``split_size``: questions in the file; ``questions``: questions prepared
        - ``question_set``: see `set_of`; ``records_digest``: digest of the file's records
        - ``fingerprint``: changes when a prepared question or its media change, see
          `Footage.version`; the same for a copy of the media in another folder
        - ``missing``: for each video that lacks frames, its ``video_source``, ``video``, ``reason``
          and the affected ``sample_ids``
        - ``counts``
        - ``verified``: true if all frames were decoded; otherwise absent
        - ``warnings``: absent if there are none
        - only with ready clips: ``media`` (`READY_CLIPS`), ``clips`` (number of clips of each
          `clips.Fit`) and ``cut_off_ids`` (ids of clips that are cut off)
        - only with a copy: the same, with another ``media``, and ``copy`` (the report of
          `copies.read_copy`)
    """
    prepared = [record for record in questions if record.sample_id in index.footage]
    counts = compare_counts(
        data.counts(prepared), data.counts(questions), "annotations", data.paper[split]
    )
    has_counts = all(counts[name]["matches"] for name in _STATED if name in data.paper[split])
    digest = records_digest(questions)
    question_set = set_of(
        has_counts=has_counts, digest=digest, published=data.prepared.digests.get(split)
    )
    rows = []
    for record in prepared:
        row = _row(record, index.footage[record.sample_id], data)
        row["split_size"] = len(questions)
        row["question_set"] = question_set
        rows.append(row)
    media = f"public copy {index.copy['name']}" if index.copy else READY_CLIPS
    if index.copy:
        has_action_times = _have_action_times(rows, index.footage)
        for row in rows:
            row["media"] = media
            row["has_action_times"] = has_action_times
    if all(record.origin is None for record in prepared):
        for row in rows:
            del row["origin"]
    optional: dict[str, Any] = {}
    if index.is_verified:
        optional["verified"] = True
    if index.warnings:
        optional["warnings"] = index.warnings
    optional |= _clips_summary(index.footage, media)
    if index.copy:
        optional["copy"] = index.copy
    return data.prepared.save(
        split,
        _dataset(rows, data.columns),
        annotations=str(annotations),
        split_size=len(questions),
        question_set=question_set,
        records_digest=digest,
        questions=len(rows),
        fingerprint=fingerprint(
            [_without_paths(row), index.footage[row["sample_id"]].version] for row in rows
        ),
        missing=[_missing_video(lost) for lost in index.lost],
        counts=counts,
        **optional,
    )


def _have_action_times(rows: Sequence[Mapping[str, Any]], footage: Mapping[Id, Footage]) -> bool:
    """Return True if each question's media show when its past actions happened."""
    for row in rows:
        fit = getattr(footage[row["sample_id"]], "fit", None)
        if row["past_actions"] and fit in UNTIMED:
            return False
    return True


def _missing_video(lost: MissingFootage) -> dict[str, Any]:
    (source, video), reason, sample_ids = lost
    return {
        "video_source": source,
        "video": str(video),
        "reason": reason,
        "sample_ids": sample_ids,
    }


def _row(record: Question, footage: Footage, data: _DataSet) -> dict[str, Any]:
    """Return a record's fields, with the choices in one list, and its media."""
    row = record.model_dump(exclude={*records.CHOICES})
    row["choices"] = record.choices
    row["media_path"] = str(footage.path)
    for name in data.columns:
        row[name] = getattr(record, name)
    if isinstance(footage, ReadyClip):
        num_separate = 1 if footage.observation else 0
        row["clip_frames"] = len(footage.frames) + num_separate
        if footage.observation:
            row["observation_path"] = str(footage.observation)
    return row


def _without_paths(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in row.items() if name not in ("media_path", "observation_path")
    }


def _clips_summary(footage: Mapping[Id, Footage], media: str) -> dict[str, Any]:
    """Return the entries of the summary about ready clips; empty if there are none."""
    clips = {sample_id: clip for sample_id, clip in footage.items() if isinstance(clip, ReadyClip)}
    if not clips:
        return {}
    counts = dict(Counter(clip.fit for clip in clips.values()))
    summary: dict[str, Any] = {"media": media, "clips": counts}
    cut_off = [sample_id for sample_id, clip in clips.items() if clip.fit == "cut off"]
    if cut_off:
        summary["cut_off_ids"] = cut_off
    return summary


def _dataset(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "Dataset":
    from datasets import Value

    text = Value("string")
    integer = Value("int64")
    names = [name for name in (*_COLUMNS, *columns, *_OPTIONAL) if name in rows[0]]
    ordered_rows = []
    for row in rows:
        ordered_rows.append({name: row[name] for name in names})
    return table(
        ordered_rows,
        choices=[text],
        past_actions=[{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
    )
