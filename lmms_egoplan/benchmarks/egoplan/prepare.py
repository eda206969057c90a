"""Prepare the datasets that the tasks load, from annotations and footage; one function per
benchmark.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS, UNTIMED, ReadyClip, find_clip
from lmms_egoplan.benchmarks.egoplan.copies import compare_observations, read_copy
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, HUB, Question
from lmms_egoplan.benchmarks.egoplan.sources import Id, find_video, read_video_info, record_problem
from lmms_egoplan.benchmarks.egoplan.statistics import COUNTS, TABLE_2, statistics, texts_of
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage, warn_of_lost
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

# Table 2. Sec. 5.1: questions per source in the validation split.
PAPER_COUNTS: dict[str, dict[str, int]] = {
    "val": {**dict(zip(COUNTS, TABLE_2[0][1:], strict=True)), EPIC_KITCHENS: 2432, EGO4D: 923},
    "test": dict(zip(COUNTS, TABLE_2[1][1:], strict=True)),
}
# Number of records in lmms-eval's copy of EgoPlan-Bench2, nv-njb/egoplan-bench2.
_COPY_SIZE = 1435
_COLUMNS = (
    *(
        "sample_id",
        "video_source",
        "video_id",
        "task_goal",
        "question",
        "choices",
        "golden_choice_idx",
        "answer",
    ),
    *("current_observation_frame", "past_actions", "media_path", "split_size", "question_set"),
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


class FoundMedia(NamedTuple):
    """The result of `find_media`.

    Attributes:
        footage: Footage by sample id.
        lost: Questions without footage.
        message: Message about the questions without footage; empty if all have footage.
        warnings: Problems that may be harmless.
        is_verified: True if all frames were decoded.
        copy: The report of `copies.read_copy`; None without a copy.
    """

    footage: dict[Id, Footage]
    lost: list[Lost]
    message: str
    warnings: list[str]
    is_verified: bool
    copy: dict[str, Any] | None


class _DataSet(NamedTuple):
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
        counts: dict[str, Any] = dict(
            zip(COUNTS, statistics(map(texts_of, questions)).counts, strict=True)
        )
        counts |= Counter(record.video_source for record in questions)
        counts |= {
            name: len({getattr(x, field, None) for x in questions})
            for name, field in _DISTINCT.items()
        }
        return {name: counts.get(name, 0) for name in next(iter(self.paper.values()))}


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
    found_media = find_media(annotations, questions, media, f"egoplan {split}")
    return _save(_EGOPLAN, split, Path(annotations).resolve(), questions, found_media)


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
    found_media = find_media(annotations, questions, media, "egoplan_bench2 test")
    if len(questions) == _COPY_SIZE:
        found_media.warnings.append(
            f"the file has {_COPY_SIZE:,} records, like lmms-eval's copy of the data set "
            "(nv-njb/egoplan-bench2); the "
            f"paper has {EGOPLAN_BENCH2.official['test']:,} questions. Accuracies are not "
            "comparable with published "
            "ones"
        )
    source = HUB if str(annotations) == HUB else Path(annotations).resolve()
    return _save(_EGOPLAN_BENCH2, "test", source, questions, found_media)


def check_media(
    questions: Sequence[Question], roots: Roots, *, skip_missing: bool
) -> dict[Id, Path]:
    """Return by sample id the video file or frame folder that has all frames of the question.

    Raises:
        LmmsEgoplanError: A folder or frames are missing. With `skip_missing`, only if no question
            has all frames.
    """
    media = find_media("annotations", questions, Media(roots, skip_missing=skip_missing))
    warn_of_lost(media.lost)
    return {sample_id: footage.path for sample_id, footage in media.footage.items()}


def find_media(
    annotations: str | Path, questions: Sequence[Question], media: Media, part: str = ""
) -> FoundMedia:
    """Find the footage of each question.

    Args:
        annotations: File of the records, for messages.
        part: Benchmark and split, only needed for a copy.

    Raises:
        LmmsEgoplanError: A folder is missing, or frames are missing and `skip_missing` is false.
            With `skip_missing`, only if no question has all frames.
    """
    videos = None if media.epic_video_info is None else read_video_info(Path(media.epic_video_info))
    copied, copy = (None, None) if media.copy is None else read_copy(*media.copy, part, questions)
    if copied is not None:
        questions = [record for record in questions if record.sample_id in copied]
    elif media.clips is None:
        _check_roots(questions, media)
    elif not Path(media.clips).is_dir():
        raise LmmsEgoplanError(
            f"--clips {media.clips}: no such folder; use the folder with <sample_id>.mp4"
        )
    problems: dict[Id, Footage | str] = {
        record.sample_id: f"{annotations}: record {index}, sample_id {record.sample_id}, {problem}"
        for index, record in enumerate(questions)
        if videos is not None
        and record.video_source == EPIC_KITCHENS
        and (problem := record_problem(record.video_id, record.current_observation_frame, videos))
    }
    warnings: list[str] = []

    def find(group: Sequence[Question]) -> dict[Id, Footage | str]:
        results = {
            record.sample_id: problems[record.sample_id]
            for record in group
            if record.sample_id in problems
        }
        valid = [record for record in group if record.sample_id not in problems]
        if not valid:
            return results
        if copied is not None:
            return results | {record.sample_id: copied[record.sample_id] for record in valid}
        if media.clips is not None:
            return results | {record.sample_id: find_clip(media.clips, record) for record in valid}
        source = valid[0].video_source
        if (root := media.roots[source]) is None:
            raise FrameError(f"{_OPTIONS[source]} is not set")
        return results | find_video(root, valid, videos, warnings.append)

    video_of = attrgetter(
        "video_source", "video_id" if (media.clips or media.copy) is None else "sample_id"
    )
    footage, lost = find_footage(
        questions, attrgetter("sample_id"), video_of, find, verify=media.verify
    )
    message = _missing_message(lost, len(questions), media) if lost else ""
    if lost and not (media.skip_missing and footage):
        raise LmmsEgoplanError(message)
    if copy and any(media.roots.values()):
        sources = find_media(
            annotations, questions, replace(media, copy=None, skip_missing=True, verify=False)
        )
        copy["observations"] = compare_observations(footage, sources.footage)
    return FoundMedia(footage, lost, message, warnings, media.verify, copy)


def _check_roots(questions: Sequence[Question], media: Media) -> None:
    """Check that each video source that questions need has a folder.

    With `skip_missing`, one source is enough.
    """
    may_skip = media.skip_missing and any(root is not None for root in media.roots.values())
    for source, count in Counter(record.video_source for record in questions).items():
        root, download = media.roots[source], f"(download: {records.VIDEO_URLS[source]})"
        if root is None and not may_skip:
            raise LmmsEgoplanError(
                f"{count} of {len(questions)} questions need videos of {source}; set "
                f"{_OPTIONS[source]} DIR {download} "
                "or skip these questions with --skip-missing"
            )
        if root is not None and not Path(root).is_dir():
            raise LmmsEgoplanError(f"{_OPTIONS[source]} {root}: no such folder {download}")


def _missing_message(lost: Sequence[Lost], num_records: int, media: Media) -> str:
    per_source = Counter(source for (source, _), _, sample_ids in lost for _ in sample_ids)
    num_lost, state = per_source.total(), "missing or damaged" if media.verify else "missing"
    if folder := media.clips or (media.copy and media.copy[1]):
        lines = [
            (
                f"the clips of {num_lost} of {num_records} questions in {folder} are {state} "
                "or do not fit:"
            )
        ]
        problems = [f"sample_id {sample_id}: {reason}" for (_, sample_id), reason, _ in lost]
    else:
        lines = [
            f"the frames of {num_lost} of {num_records} questions are {state}:",
            *(
                (
                    f"  {count} from {source} ({_OPTIONS[source]}; download: "
                    f"{records.VIDEO_URLS[source]})"
                )
                for source, count in per_source.items()
            ),
            f"in {len({video for video, _, _ in lost})} videos:",
        ]
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
    found_media: FoundMedia,
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
    prepared = [record for record in questions if record.sample_id in found_media.footage]
    counts = compare_counts(
        data.counts(prepared), data.counts(questions), "annotations", data.paper[split]
    )
    has_counts = all(counts[name]["matches"] for name in _STATED if name in data.paper[split])
    digest = records_digest(questions)
    question_set = set_of(
        has_counts=has_counts, digest=digest, published=data.prepared.digests.get(split)
    )
    of_file = {"split_size": len(questions), "question_set": question_set}
    rows = [
        _row(record, found_media.footage[record.sample_id], data) | of_file for record in prepared
    ]
    kind = f"public copy {copy['name']}" if (copy := found_media.copy) else READY_CLIPS
    if copy:
        fits = [
            getattr(found_media.footage[row["sample_id"]], "fit", None)
            for row in rows
            if row["past_actions"]
        ]
        rows = [
            row | {"media": kind, "has_action_times": {*fits}.isdisjoint(UNTIMED)} for row in rows
        ]
    if all(record.origin is None for record in prepared):
        for row in rows:
            del row["origin"]
    return data.prepared.save(
        split,
        _dataset(rows, data.columns),
        annotations=str(annotations),
        **of_file,
        records_digest=digest,
        questions=len(rows),
        fingerprint=fingerprint(
            [_without_paths(row), found_media.footage[row["sample_id"]].version] for row in rows
        ),
        missing=[
            {
                "video_source": source,
                "video": str(video),
                "reason": reason,
                "sample_ids": sample_ids,
            }
            for (source, video), reason, sample_ids in found_media.lost
        ],
        counts=counts,
        **({"verified": True} if found_media.is_verified else {}),
        **({"warnings": found_media.warnings} if found_media.warnings else {}),
        **_clips_summary(found_media.footage, kind) | ({"copy": copy} if copy else {}),
    )


def _row(record: Question, footage: Footage, data: _DataSet) -> dict[str, Any]:
    """Return a record's fields, with the choices in one list, and its media."""
    return (
        record.model_dump(exclude={*records.CHOICES})
        | {"choices": record.choices, "media_path": str(footage.path)}
        | {name: getattr(record, name) for name in data.columns}
        | (
            {"clip_frames": len(footage.frames) + bool(footage.observation)}
            if isinstance(footage, ReadyClip)
            else {}
        )
        | (
            {"observation_path": str(path)}
            if (path := getattr(footage, "observation", None))
            else {}
        )
    )


def _without_paths(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in row.items() if name not in ("media_path", "observation_path")
    }


def _clips_summary(footage: Mapping[Id, Footage], kind: str) -> dict[str, Any]:
    clips = {sample_id: clip for sample_id, clip in footage.items() if isinstance(clip, ReadyClip)}
    if not clips:
        return {}
    cut_off = [sample_id for sample_id, clip in clips.items() if clip.fit == "cut off"]
    counts = dict(Counter(clip.fit for clip in clips.values()))
    return {"media": kind, "clips": counts, **({"cut_off_ids": cut_off} if cut_off else {})}


def _dataset(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "Dataset":
    from datasets import Value

    text, integer = Value("string"), Value("int64")
    names = [name for name in (*_COLUMNS, *columns, *_OPTIONAL) if name in rows[0]]
    return table(
        [{name: row[name] for name in names} for row in rows],
        choices=[text],
        past_actions=[{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
    )
