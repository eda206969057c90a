"""From EgoPlan's annotation file and the videos to a dataset that the tasks load."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, Record, Split, read_annotations
from lmms_egoplan.frames import FrameError, count_video_frames, frame_path
from lmms_egoplan.storage import StorageError, resolve_inside, save_split

if TYPE_CHECKING:
    from datasets import Dataset

# What the paper counts: questions and task goals in Table 2, the sources of the validation split in sec. 5.1.
PAPER_COUNTS: dict[str, dict[str, int]] = {
    "val": {"questions": 3355, "task_goals": 2407, EPIC_KITCHENS: 2432, EGO4D: 923},
    "test": {"questions": 1584, "task_goals": 902},
}
ANNOTATIONS_URL = "https://github.com/ChenYi99/EgoPlan"
_MEDIA = {
    EPIC_KITCHENS: ("--epic-kitchens", "https://epic-kitchens.github.io"),
    EGO4D: ("--ego4d", "https://ego4d-data.org"),
}
_LISTED = 20


class PrepareError(ValueError):
    """Videos that the questions need are not there."""


def prepare_egoplan(
    annotations: str | Path,
    split: Split,
    epic_kitchens: str | Path | None,
    ego4d: str | Path | None,
    skip_missing: bool = False,
) -> dict[str, Any]:
    """Check annotations and media, and write the split below the data root.

    Args:
        annotations: the official file; see `read_annotations`.
        split: ``"val"`` or ``"test"``.
        epic_kitchens: holds ``P01/rgb_frames/P01_13/frame_0000000760.jpg``; None if no question needs it.
        ego4d: holds ``<video_id>.mp4``; None if no question needs it.
        skip_missing: leave out questions whose frames are not there, instead of refusing.

    Returns:
        The summary, which is also stored with the split: ``benchmark``, ``split``, ``prepared`` (UTC, ISO
        8601), ``annotations``, ``split_size`` (questions in the file), ``questions`` (prepared), ``missing``
        (sample ids) and ``counts``: for questions, task_goals and each source the numbers ``prepared``,
        ``annotations``, ``paper`` (None where the paper does not tell) and ``matches``, whether file and
        paper agree (None likewise).

    Raises:
        AnnotationError: the annotations are wrong.
        PrepareError: a folder or frames are missing; nothing is written.
    """
    records = read_annotations(annotations, split)
    roots = {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}
    _check_roots(records, roots, skip_missing)
    media, missing = _locate(records, roots)
    if missing and not (skip_missing and media):
        raise PrepareError(_missing_message(records, missing, skip_missing))
    kept = [record for record in records if record.sample_id in media]
    summary = {
        "benchmark": "egoplan",
        "split": split,
        "prepared": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "annotations": str(Path(annotations).resolve()),
        "split_size": len(records),
        "questions": len(kept),
        "missing": sorted(missing),
        "counts": _compare(records, kept, split),
    }
    save_split(_dataset(kept, media, len(records)), "egoplan", split, summary)
    return summary


def _check_roots(records: Sequence[Record], roots: dict[str, str | Path | None], skip_missing: bool) -> None:
    needed = Counter(record.video_source for record in records)
    for source, count in needed.items():
        option, url = _MEDIA[source]
        root = roots[source]
        if root is None and not skip_missing:
            raise PrepareError(
                f"{count} of {len(records)} questions need videos of {source}: give their folder with "
                f"{option} DIR (download: {url}), or --skip-missing to go without them"
            )
        if root is not None and not Path(root).is_dir():
            raise PrepareError(f"{option} {root}: no such folder (download: {url})")


def _locate(records: Sequence[Record], roots: dict[str, str | Path | None]) -> tuple[dict[int, str], dict[int, str]]:
    """Per sample id the absolute path of its frame folder or video, or else what is wrong with it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    media: dict[int, str] = {}
    missing: dict[int, str] = {}
    lengths: dict[Path, int | FrameError] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for record in progress.track(records, description="Checking frames"):
            root = roots[record.video_source]
            try:
                if root is None:
                    raise FrameError(f"{_MEDIA[record.video_source][0]} is not given")
                if record.video_source == EPIC_KITCHENS:
                    path = _epic_folder(root, record)
                else:
                    path = _ego4d_video(root, record, lengths)
            except (FrameError, StorageError) as error:
                missing[record.sample_id] = str(error)
            else:
                media[record.sample_id] = str(path)
    return media, missing


def _epic_folder(root: str | Path, record: Record) -> Path:
    participant = record.video_id.split("_")[0]
    folder = resolve_inside(root, participant, "rgb_frames", record.video_id)
    starts = [action.start_frame for action in record.past_actions[:1]]
    for number in (record.current_observation_frame, *starts):
        if not frame_path(folder, number).is_file():
            raise FrameError(f"{frame_path(folder, number)}: no such frame")
    return folder


def _ego4d_video(root: str | Path, record: Record, lengths: dict[Path, int | FrameError]) -> Path:
    path = resolve_inside(root, f"{record.video_id}.mp4")
    if path not in lengths:
        try:
            lengths[path] = count_video_frames(path)
        except FrameError as error:
            lengths[path] = error
    length = lengths[path]
    if isinstance(length, FrameError):
        raise length
    if record.current_observation_frame >= length:
        raise FrameError(f"{path}: {length} frames, but the question needs frame {record.current_observation_frame}")
    return path


def _missing_message(records: Sequence[Record], missing: dict[int, str], skip_missing: bool) -> str:
    sources = {record.sample_id: record.video_source for record in records}
    per_source = Counter(sources[sample_id] for sample_id in missing)
    lines = [f"the frames of {len(missing)} of {len(records)} questions are missing:"]
    for source, count in per_source.items():
        option, url = _MEDIA[source]
        lines.append(f"  {count} from {source} ({option}; download: {url})")
    lines += [f"  sample_id {sample_id}: {text}" for sample_id, text in list(missing.items())[:_LISTED]]
    if len(missing) > _LISTED:
        lines.append(f"  ... and {len(missing) - _LISTED} more")
    lines.append(
        "no question is left to prepare" if skip_missing else "add them, or go on without them: --skip-missing"
    )
    return "\n".join(lines)


def _counts(records: Sequence[Record]) -> dict[str, int]:
    sources = Counter(record.video_source for record in records)
    return {
        "questions": len(records),
        "task_goals": len({record.task_goal for record in records}),
        EPIC_KITCHENS: sources[EPIC_KITCHENS],
        EGO4D: sources[EGO4D],
    }


def _compare(records: Sequence[Record], kept: Sequence[Record], split: Split) -> dict[str, dict[str, Any]]:
    prepared, paper = _counts(kept), PAPER_COUNTS[split]
    return {
        name: {
            "prepared": prepared[name],
            "annotations": count,
            "paper": paper.get(name),
            "matches": count == paper[name] if name in paper else None,
        }
        for name, count in _counts(records).items()
    }


def _dataset(records: Iterable[Record], media: dict[int, str], split_size: int) -> "Dataset":
    from datasets import Dataset, Features, Value

    text, integer = Value("string"), Value("int64")
    features = Features(
        {
            "sample_id": integer,
            "video_source": text,
            "video_id": text,
            "task_goal": text,
            "question": text,
            "choices": [text],
            "golden_choice_idx": text,
            "answer": text,
            "current_observation_frame": integer,
            "past_actions": [{"narration_text": text, "start_frame": integer, "stop_frame": integer}],
            "media_path": text,
            "split_size": integer,
        }
    )
    rows = [asdict(record) | {"media_path": media[record.sample_id], "split_size": split_size} for record in records]
    return Dataset.from_list(rows, features=features)
