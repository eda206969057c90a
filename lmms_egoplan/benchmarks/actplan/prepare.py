"""Prepare ActPlan-1K: convert the release to a dataset that the tasks load."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.actplan import instances
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.coverage import set_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.progress import track
from lmms_egoplan.report.charts import draw_bars, spoken
from lmms_egoplan.report.document import Figure, write_figure
from lmms_egoplan.report.scores import Mean
from lmms_egoplan.storage import compare_counts, fingerprint, refusal, split_dir
from lmms_egoplan.text import csv_text

if TYPE_CHECKING:
    from datasets import Features

SPLIT = "test"
_COUNTS = module_yaml(__file__)
# The paper's numbers, and the ranges that match them if more than one number does.
PAPER = {name: count["paper"] for name, count in _COUNTS.items()}
_RANGES = {name: count["agrees"] for name, count in _COUNTS.items() if "agrees" in count}
LABELS = {name: count["label"] for name, count in _COUNTS.items()} | {
    name: f"instances, {name}" for name in instances.ACTIVITY_TYPES
}
# Rows in memory per batch: about 20 MB of images.
_ROWS = 16


def prepare_actplan(
    source: Path, *, skip_missing: bool = False, bddl: Path | None = None
) -> dict[str, Any]:
    """Check all instances, decoding their images, and write the split below the data root.

    Args:
        source: Passed to `find_instances`.
        skip_missing: Skip invalid folders instead of raising an error.
        bddl: Passed to `read_instance`.

    Returns:
        The summary, which is also stored with the split:

        - ``benchmark``, ``split``, ``prepared`` (UTC, ISO 8601), ``source``
        - ``split_size``: instances in the source; ``questions``: prepared instances
        - ``question_set``: see `set_of`; ``records_digest``: digest of the source's ids, texts,
          plans and images
        - ``without_gold_plan_1``, ``without_gold_plan_2``: prepared instances without that plan
        - ``without_bddl``: prepared instances without a readable problem; ``bddl_missing``: the
          distinct reasons
        - ``fingerprint``: changes with any prepared text or image
        - ``missing``: for each skipped folder, ``folder`` (its path below the source) and
          ``reason``
        - ``images_outside``: for each instance in the source with fewer or more images than the
          paper states, ``folder`` and ``images`` (the number of files)
        - ``counts``: for each row of `PAPER` and each activity type, the numbers ``prepared``,
          ``source`` and ``paper``, and ``matches`` (True if source and paper agree). Mean steps are
          over the instances with gold plan 1, rounded to hundredths; None if no instance has it.
          Numbers that the paper does not state are None.

        Next to the split, ``figure_4`` shows its counterfactual activities by type, and those that
        `bddl` describes.

        A row of the split has:

        - ``id``, ``scene``, ``activity``, ``setting``, ``activity_type``, ``task_description``
        - ``images``: the files' bytes, in the order of their names
        - ``gold_plan_1``, ``gold_plan_2``: steps; empty if the file is missing
        - ``problem``: the activity in BDDL; "" if not available
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
    if bddl is not None:
        instances.check_folder(bddl)
    folder = split_dir("actplan", SPLIT).parent
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rows.", dir=folder) as scratch:
        rows = Path(scratch) / "rows.arrow"
        records, version, digest = _write_rows(source, ids, rows, bddl, origin)
        usable = [record for record in records if not record.problems]
        invalid = {
            str(record.id): "; ".join(record.problems) for record in records if record.problems
        }
        if (invalid_folders or invalid) and not (skip_missing and usable):
            problems = [f"{source / path}: {reason}" for path, reason in invalid_folders.items()]
            problems += [problem for record in records for problem in record.problems]
            heading = f"ActPlan-1K's data have {len(problems)} problem(s):"
            advice = "correct them, or skip these folders"
            raise LmmsEgoplanError(
                refusal(heading, problems, advice, "instance", skip_missing=skip_missing)
            )
        from datasets import Dataset

        has_counts = Counter(instance.setting for instance in ids) == instances.INSTANCES
        question_set = set_of(
            has_counts=has_counts, digest=digest, published=ACTPLAN.digests.get(SPLIT)
        )
        summary = ACTPLAN.save(
            SPLIT,
            Dataset.from_file(str(rows)).add_column("question_set", [question_set] * len(usable)),
            source=str(source.resolve()),
            split_size=len(records),
            question_set=question_set,
            records_digest=digest,
            questions=len(usable),
            without_gold_plan_1=sum(not record.gold_plan_1 for record in usable),
            without_gold_plan_2=sum(not record.gold_plan_2 for record in usable),
            without_bddl=sum(not record.bddl for record in usable),
            bddl_missing=list(
                dict.fromkeys(record.bddl_problem for record in usable if record.bddl_problem)
            ),
            fingerprint=version,
            missing=[
                {"folder": path, "reason": reason}
                for path, reason in (invalid_folders | invalid).items()
            ],
            images_outside=[
                {"folder": str(record.id), "images": record.num_images}
                for record in records
                if not PAPER["fewest_images"] <= record.num_images <= PAPER["most_images"]
            ],
            counts=compare_counts(_counts(usable), _counts(records), "source", PAPER, _RANGES),
        )
    prepared = {record.id.activity for record in usable if record.id.setting == "counterfactual"}
    # In the authors' repository, descriptions are next to the problems; in the full release, in a
    # folder "1".
    texts = bddl.resolve().rglob("task_description_1.txt") if bddl else ()
    described = {path.parts[-3] if path.parts[-2] == "1" else path.parts[-2] for path in texts}
    activities = {"prepared, category not published": prepared} | (
        {"in --bddl, category not published": described} if described else {}
    )
    write_figure_4(split_dir("actplan", SPLIT), activities)
    return summary


def write_figure_4(folder: Path, activities: Mapping[str, Collection[str]]) -> None:
    """Write the numbers of counterfactual activities by type as ``figure_4.csv``, ``.png`` and
    ``.svg`` (Fig. 4).

    Args:
        folder: Output folder.
        activities: Names of activities by category of sec. 3.4.

    Raises:
        OSError: The folder cannot be written.
    """
    types = instances.ACTIVITY_TYPES
    counts = {
        category: Counter(map(instances.activity_type, names))
        for category, names in activities.items()
    }
    rows: list[list[Any]] = [
        [category, *map(counter.__getitem__, types)] for category, counter in counts.items()
    ]
    write_whole(folder / "figure_4.csv", csv_text([["category", *types], *rows]))
    means = {category: [*map(Mean, numbers)] for category, *numbers in rows}
    draw = partial(draw_bars, types, means, "counterfactual activities", 1)
    write_figure(
        folder, Figure("figure_4", "Counterfactual activities", "", draw, spoken(types, means, 0))
    )


def _write_rows(
    source: Path,
    ids: Sequence[instances.InstanceId],
    path: Path,
    bddl: Path | None,
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
            record = instances.read_instance(source, instance, bddl)
            parts.append(record_parts(record))
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
                    "problem": record.bddl,
                    "split_size": len(ids),
                    "setting_size": settings[instance.setting],
                    **origin,
                }
                digest.update(
                    json.dumps([row | {"images": parts[-1][-1]}], sort_keys=True).encode()
                )
                writer.write(
                    row | {"images": [{"bytes": image, "path": None} for image in record.images]}
                )
            records.append(replace(record, images=()))
        writer.finalize()
    return records, digest.hexdigest(), fingerprint(parts)


def record_parts(record: instances.ReleasedInstance) -> list[Any]:
    """Return what identifies a released instance: its id, texts, plans, and the hashes of its image
    files.
    """
    hashes = [sha256(image).hexdigest() for image in record.images]
    return [str(record.id), record.task_description, record.gold_plan_1, record.gold_plan_2, hashes]


def _features(origin: Iterable[str]) -> "Features":
    from datasets import Features, Image, Value
    from datasets import Sequence as ListOf

    text, number = Value("string"), Value("int64")
    return Features(
        {
            **dict.fromkeys(
                ("id", "scene", "activity", "setting", "activity_type", "task_description"), text
            ),
            "images": ListOf(Image()),
            **dict.fromkeys(("gold_plan_1", "gold_plan_2"), ListOf(text)),
            "problem": text,
            **dict.fromkeys(origin, text),
            **dict.fromkeys(("split_size", "setting_size"), number),
        }
    )


def _counts(records: Sequence[instances.ReleasedInstance]) -> dict[str, float | None]:
    by_setting = {
        name: [record for record in records if record.id.setting == name]
        for name in instances.SETTINGS
    }
    types = Counter(instances.activity_type(record.id.activity) for record in records)
    images = [record.num_images for record in records]
    samples = Counter(
        ((record.id.activity, record.id.setting), record.id.scene) for record in records
    )
    return {
        **{
            f"{name}_activities": len({record.id.activity for record in group})
            for name, group in by_setting.items()
        },
        **{f"{name}_instances": len(group) for name, group in by_setting.items()},
        **{f"{name}_steps": _mean_steps(group) for name, group in by_setting.items()},
        "scenes": len({scene for _, scene in samples}),
        "most_scenes": max(Counter(activity for activity, _ in samples).values(), default=0),
        "most_samples": max(samples.values(), default=0),
        "fewest_images": min(images, default=None),
        "most_images": max(images, default=None),
        **{name: types[name] for name in instances.ACTIVITY_TYPES},
    }


def _mean_steps(records: Sequence[instances.ReleasedInstance]) -> float | None:
    lengths = [len(record.gold_plan_1) for record in records if record.gold_plan_1]
    return round(fmean(lengths), 2) if lengths else None
