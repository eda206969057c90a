"""Write the prepared split that the tasks load, from annotations and footage.

Each benchmark has a function of its own. The counts are compared with the papers' (EgoPlan-Bench,
Table 2 and sec. 5.1; EgoPlan-Bench2, sec. 3).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.footage.clips import UNTIMED, ReadyClip
from lmms_egoplan.benchmarks.egoplan.footage.sources import (
    Id,
)
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, HUB, READY_CLIPS, Question
from lmms_egoplan.benchmarks.egoplan.statistics import COUNTS, TABLE_2, statistics, texts_of
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import set_of
from lmms_egoplan.media.footage import (
    Footage,
    MissingFootage,
)
from lmms_egoplan.storage import (
    PreparedData,
    compare_counts,
    fingerprint,
    records_digest,
    table,
)

if TYPE_CHECKING:
    from datasets import Dataset
from lmms_egoplan.benchmarks.egoplan.footage.index import FootageIndex, Media, find_media

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
