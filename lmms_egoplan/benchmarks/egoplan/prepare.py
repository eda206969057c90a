"""From records and their footage to a dataset that the tasks load."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.clips import READY_CLIPS, ReadyClip, find_clip
from lmms_egoplan.benchmarks.egoplan.records import CHOICES, VIDEO_URLS, Question
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.footage import Footage, Lost, find_footage
from lmms_egoplan.storage import PreparedData, fingerprint, refusal

if TYPE_CHECKING:
    from datasets import Dataset

Id = int | str


def find_clips(
    records: Sequence[Question], root: str | Path, verify: bool, unfit: Mapping[Id, str] = MappingProxyType({})
) -> tuple[dict[Id, Footage], list[Lost]]:
    """The ready-cut clip of each question that has one, and the others.

    Args:
        root: holds the clips, see `find_clip`.
        verify: decode all frames that may be shown.
        unfit: by sample id, why a question cannot be shown, whatever its clip.

    Raises:
        LmmsEgoplanError: there is no such folder.
    """
    if not Path(root).is_dir():
        raise LmmsEgoplanError(f"--clips {root}: no such folder; it holds <sample_id>.mp4")

    def find(group: Sequence[Question]) -> dict[Id, Footage | str]:
        (record,) = group
        return {record.sample_id: unfit.get(record.sample_id) or find_clip(root, record)}

    return find_footage(records, attrgetter("sample_id"), attrgetter("video_source", "sample_id"), find, verify)


def missing_message(
    missing: Sequence[Lost],
    split_size: int,
    options: Mapping[str, str],
    skip_missing: bool,
    verify: bool,
    clips: str | Path | None = None,
) -> str:
    """About questions without footage.

    Args:
        options: by source of videos, the option of the command that gives its folder.
        clips: the folder of ready-cut clips, where these are taken.
    """
    per_source: Counter[str] = Counter()
    for (source, _), _, sample_ids in missing:
        per_source[source] += len(sample_ids)
    state = "missing or damaged" if verify else "missing"
    if clips is not None:
        found = f"the clips of {per_source.total()} of {split_size} questions in {clips} are {state} or do not fit:"
        clip_problems = [f"sample_id {lost.video[1]}: {lost.reason}" for lost in missing]
        return refusal(
            found, clip_problems, "add them, or go on without their questions", "question", skip_missing=skip_missing
        )
    lines = [f"the frames of {per_source.total()} of {split_size} questions are {state}:"]
    for source, count in per_source.items():
        lines.append(f"  {count} from {source} ({options[source]}; download: {VIDEO_URLS[source]})")
    lines.append(f"in {len({lost.video for lost in missing})} videos:")
    videos = [f"{lost.video[1]} (questions: {len(lost.ids)}): {lost.reason}" for lost in missing]
    return refusal("\n".join(lines), videos, "add them, or go on without them", "question", skip_missing=skip_missing)


def rows_of(records: Sequence[Question], footage: Mapping[Id, Footage], split_size: int) -> list[dict[str, Any]]:
    """The rows of the dataset, with all fields of the records."""
    without = {*CHOICES} | ({"origin"} if all(record.origin is None for record in records) else set())
    return [
        record.model_dump(exclude=without)
        | {"choices": record.choices, "media_path": str(footage[record.sample_id].path), "split_size": split_size}
        | _clip_columns(footage[record.sample_id])
        for record in records
    ]


def save_questions(
    prepared: PreparedData,
    split: str,
    annotations: str | Path,
    rows: Sequence[dict[str, Any]],
    footage: Mapping[Id, Footage],
    lost: Sequence[Lost],
    counts: Mapping[str, Any],
    verify: bool = False,
    warnings: Sequence[str] = (),
    columns: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write a split of questions.

    Args:
        annotations: where the records are from, for the summary.
        rows: at least one, see `rows_of`.
        lost: the questions without footage.
        counts: of the summary.
        verify: all frames were decoded.
        warnings: what seems wrong and may not be.
        columns: the type of each column that not all such datasets have, ``string`` or ``int64``.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO
        8601), ``annotations``, ``split_size`` (questions in the file), ``questions`` (prepared),
        ``fingerprint`` (another text once a prepared question or its media have changed, see `Footage.version`),
        ``missing`` (for each video that lacks frames its ``video_source``, ``video``, ``reason`` and the
        ``sample_ids`` that it concerns), ``counts``, ``verified`` (true, where all frames were decoded), ``warnings``
        (absent without), ``media`` and ``clips`` (with ready clips alone: `READY_CLIPS`, and how many questions' clips
        have each `clips.Fit`, with the ids of those that are cut off under ``cut_off_ids``).
    """
    return prepared.save(
        split,
        _dataset(rows, columns),
        annotations=str(annotations),
        split_size=rows[0]["split_size"],
        questions=len(rows),
        fingerprint=fingerprint([row, footage[row["sample_id"]].version] for row in rows),
        missing=[
            {"video_source": source, "video": str(video), "reason": reason, "sample_ids": sample_ids}
            for (source, video), reason, sample_ids in lost
        ],
        counts=counts,
        **({"verified": True} if verify else {}),
        **({"warnings": list(warnings)} if warnings else {}),
        **_clips_summary(footage),
    )


def _clip_columns(footage: Footage) -> dict[str, Any]:
    return {"clip_frames": len(footage.frames)} if isinstance(footage, ReadyClip) else {}


def _clips_summary(footage: Mapping[Id, Footage]) -> dict[str, Any]:
    clips = {sample_id: clip for sample_id, clip in footage.items() if isinstance(clip, ReadyClip)}
    if not clips:
        return {}
    cut_off = [sample_id for sample_id, clip in clips.items() if clip.fit == "cut off"]
    counts = dict(Counter(clip.fit for clip in clips.values()))
    return {"media": READY_CLIPS, "clips": counts, **({"cut_off_ids": cut_off} if cut_off else {})}


def _dataset(rows: Sequence[dict[str, Any]], columns: Mapping[str, str]) -> "Dataset":
    from datasets import Dataset, Features, Value

    text, integer = Value("string"), Value("int64")
    features = Features(
        {
            "sample_id": text if isinstance(rows[0]["sample_id"], str) else integer,
            **dict.fromkeys(("video_source", "video_id", "task_goal", "question"), text),
            "choices": [text],
            **dict.fromkeys(("golden_choice_idx", "answer"), text),
            "current_observation_frame": integer,
            "past_actions": [{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
            "media_path": text,
            "split_size": integer,
            **{name: Value(kind) for name, kind in columns.items()},
            **({"clip_frames": integer} if "clip_frames" in rows[0] else {}),
            **({"origin": text} if "origin" in rows[0] else {}),
        }
    )
    return Dataset.from_list([{name: row[name] for name in features} for row in rows], features=features)
