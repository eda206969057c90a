"""Write the dataset that the tasks load, and compare its counts with Table 2."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.actplan import instances
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.storage import compare_counts, fingerprint, refusal, split_dir

if TYPE_CHECKING:
    from datasets import Features

SPLIT = "test"


@dataclass(frozen=True)
class _Count:
    """A number of the paper, next to which `data prepare actplan` prints the prepared one.

    label: Title of the number.
    paper: The paper's number.
    agrees: Lowest and highest number that match the paper's; None if only that number does.
    """

    label: str
    paper: float
    agrees: tuple[int, int] | None = None


# In the order in which they are printed.
_COUNTS = {
    # Table 2. Steps are the mean length of gold plan 1; the paper does not say which one it counts.
    "normal_activities": _Count("normal activities", 100),
    "counterfactual_activities": _Count("counterfactual activities", 53),
    "normal_instances": _Count("normal instances", 825),
    "counterfactual_instances": _Count("counterfactual instances", 362),
    "normal_steps": _Count("mean steps, normal", 23.95),
    "counterfactual_steps": _Count("mean steps, counterfactual", 31.93),
    # Table 1 and sec. 3.2.
    "scenes": _Count("scenes", 15),
    # Sec. 3.4: "each activity is loaded in three randomly selected household environments", and
    # sampled "up to three times in each". Both counts are maxima over the activities.
    "most_scenes": _Count("scenes of an activity, at most", 3),
    "most_samples": _Count("samples of an activity in a scene, at most", 3, agrees=(1, 3)),
    # Sec. 1: "Each activity instance contains 2~5 images"; sec. 3.2: "Generally, 2 to 5 images".
    "fewest_images": _Count("images of an instance, at least", 2, agrees=(2, 5)),
    "most_images": _Count("images of an instance, at most", 5, agrees=(2, 5)),
}
PAPER = {name: count.paper for name, count in _COUNTS.items()}
"""The paper's numbers."""
_RANGES = {name: count.agrees for name, count in _COUNTS.items() if count.agrees is not None}
LABELS = {
    **{name: count.label for name, count in _COUNTS.items()},
    **{name: f"instances, {name}" for name in instances.ACTIVITY_TYPES},
}
"""Titles of the numbers and of the types of activities."""
# Rows in memory per batch: about 20 MB of images.
_ROWS = 16


def prepare_actplan(source: Path, *, skip_missing: bool = False) -> dict[str, Any]:
    """Check all instances, decoding their images, and write the split below the data root.

    Args:
        source: Passed to `find_instances`.
        skip_missing: Skip invalid folders instead of raising an error.

    Returns:
        The summary, which is also stored with the split:

        - ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601), ``source``
        - ``split_size``: instances in the source; ``questions``: prepared instances
        - ``question_set``: see `set_of`; ``records_digest``: digest of the source's ids, texts,
          plans and images
        - ``without_gold_plan_1``, ``without_gold_plan_2``: prepared instances without that plan
        - ``fingerprint``: changes with any prepared text or image
        - ``missing``: for each skipped folder, ``folder`` (its path below the source) and
          ``reason``
        - ``images_outside``: for each instance in the source with fewer or more images than the
          paper states, ``folder`` and ``images`` (the number of files)
        - ``counts``: for each row of `PAPER` and each activity type, the numbers ``prepared``,
          ``source`` and ``paper``, and ``matches`` (True if source and paper agree). Mean steps are
          over the instances with gold plan 1, rounded to hundredths; None if no instance has it.
          Numbers that the paper does not state are None.

        A row of the split has:

        - ``id``, ``scene``, ``activity``, ``setting``, ``activity_type``, ``task_description``
        - ``images``: the files' bytes, in the order of their names
        - ``gold_plan_1``, ``gold_plan_2``: steps; empty if the file is missing
        - ``split_size`` and ``question_set`` (as above), and ``setting_size``: instances with the
          row's setting
        - ``origin``: only for instances that are not the release's (see `read_origin`)

    Raises:
        LmmsEgoplanError: The data are invalid, or no valid instance remains; nothing is written.
        OSError: A folder cannot be read, or the split cannot be written (it needs twice its size on
            disk).
    """
    ids, invalid_folders = instances.find_instances(source)
    origin = instances.read_origin(source)
    folder = split_dir("actplan", SPLIT).parent
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rows.", dir=folder) as scratch:
        rows = Path(scratch) / "rows.arrow"
        records, version, digest = _write_rows(source, ids, rows, origin)
        usable = [record for record in records if not record.problems]
        invalid = {
            str(record.id): "; ".join(record.problems) for record in records if record.problems
        }
        if (invalid_folders or invalid) and not (skip_missing and usable):
            problems = [f"{source / path}: {reason}" for path, reason in invalid_folders.items()]
            for record in records:
                problems += record.problems
            raise LmmsEgoplanError(
                refusal(
                    f"ActPlan-1K's data have {len(problems)} problem(s):",
                    problems,
                    "correct them, or skip these folders",
                    "instance",
                    skip_missing=skip_missing,
                )
            )
        from datasets import Dataset

        has_counts = Counter(instance.setting for instance in ids) == instances.INSTANCES
        question_set = set_of(
            has_counts=has_counts, digest=digest, published=ACTPLAN.digests.get(SPLIT)
        )
        missing = [
            {"folder": path, "reason": reason}
            for path, reason in (invalid_folders | invalid).items()
        ]
        return ACTPLAN.save(
            SPLIT,
            Dataset.from_file(str(rows)).add_column("question_set", [question_set] * len(usable)),
            source=str(source.resolve()),
            split_size=len(records),
            question_set=question_set,
            records_digest=digest,
            questions=len(usable),
            without_gold_plan_1=sum(not record.gold_plan_1 for record in usable),
            without_gold_plan_2=sum(not record.gold_plan_2 for record in usable),
            fingerprint=version,
            missing=missing,
            images_outside=_images_outside(records),
            counts=compare_counts(_counts(usable), _counts(records), "source", PAPER, _RANGES),
        )


def _images_outside(records: Sequence[instances.ReleasedInstance]) -> list[dict[str, Any]]:
    """List the instances with fewer or more images than the paper states."""
    outside: list[dict[str, Any]] = []
    for record in records:
        if not PAPER["fewest_images"] <= record.num_images <= PAPER["most_images"]:
            outside.append({"folder": str(record.id), "images": record.num_images})
    return outside


def _write_rows(
    source: Path,
    ids: Sequence[instances.InstanceId],
    path: Path,
    origin: dict[str, str],
) -> tuple[list[instances.ReleasedInstance], str, str]:
    """Write the rows of all valid instances, one batch at a time.

    Returns:
        All records without their images, the fingerprint of the rows, and the digest of all
        records.
    """
    from datasets.arrow_writer import ArrowWriter

    records: list[instances.ReleasedInstance] = []
    parts: list[list[Any]] = []
    digest = sha256()
    settings = Counter(instance.setting for instance in ids)
    with ArrowWriter(features=_features(origin), path=str(path), writer_batch_size=_ROWS) as writer:
        for instance in track(ids, "Checking and copying instances"):
            record = instances.read_instance(source, instance)
            identity = record_parts(record)
            parts.append(identity)
            if not record.problems:
                row = {
                    "id": str(instance),
                    "scene": instance.scene,
                    "activity": instance.activity,
                    "setting": instance.setting,
                    "activity_type": instances.activity_type(instance.activity),
                    "task_description": record.task_description,
                    "gold_plan_1": record.gold_plan_1,
                    "gold_plan_2": record.gold_plan_2,
                    "split_size": len(ids),
                    "setting_size": settings[instance.setting],
                    **origin,
                }
                image_hashes = identity[-1]
                digest.update(json.dumps([row | {"images": image_hashes}], sort_keys=True).encode())
                images = [{"bytes": image, "path": None} for image in record.images]
                writer.write(row | {"images": images})
            records.append(replace(record, images=()))
        writer.finalize()
    return records, digest.hexdigest(), fingerprint(parts)


def record_parts(record: instances.ReleasedInstance) -> list[Any]:
    """Return what identifies a released instance.

    These are its id, texts, plans, and the hashes of its image files.
    """
    hashes = [sha256(image).hexdigest() for image in record.images]
    return [str(record.id), record.task_description, record.gold_plan_1, record.gold_plan_2, hashes]


def _features(origin: Iterable[str]) -> "Features":
    from datasets import Features, Image, Value
    from datasets import Sequence as ListOf

    text = Value("string")
    number = Value("int64")
    texts = ListOf(text)
    return Features(
        {
            "id": text,
            "scene": text,
            "activity": text,
            "setting": text,
            "activity_type": text,
            "task_description": text,
            "images": ListOf(Image()),
            "gold_plan_1": texts,
            "gold_plan_2": texts,
            **dict.fromkeys(origin, text),
            "split_size": number,
            "setting_size": number,
        }
    )


def _counts(records: Sequence[instances.ReleasedInstance]) -> dict[str, float | None]:
    """Count what `PAPER` states, and the instances of each type of activity."""
    by_setting: dict[str, list[instances.ReleasedInstance]] = {}
    for name in instances.SETTINGS:
        by_setting[name] = [record for record in records if record.id.setting == name]
    counts: dict[str, float | None] = {}
    for name, group in by_setting.items():
        counts[f"{name}_activities"] = len({record.id.activity for record in group})
    for name, group in by_setting.items():
        counts[f"{name}_instances"] = len(group)
    for name, group in by_setting.items():
        counts[f"{name}_steps"] = _mean_steps(group)
    samples = Counter(
        (record.id.activity, record.id.setting, record.id.scene) for record in records
    )
    scenes_of_activities = Counter((activity, setting) for activity, setting, _ in samples)
    counts["scenes"] = len({scene for _, _, scene in samples})
    counts["most_scenes"] = max(scenes_of_activities.values(), default=0)
    counts["most_samples"] = max(samples.values(), default=0)
    images = [record.num_images for record in records]
    counts["fewest_images"] = min(images, default=None)
    counts["most_images"] = max(images, default=None)
    types = Counter(instances.activity_type(record.id.activity) for record in records)
    for name in instances.ACTIVITY_TYPES:
        counts[name] = types[name]
    return counts


def _mean_steps(records: Sequence[instances.ReleasedInstance]) -> float | None:
    lengths = [len(record.gold_plan_1) for record in records if record.gold_plan_1]
    return round(fmean(lengths), 2) if lengths else None
