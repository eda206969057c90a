"""Finished instances in the layout of the full release, which ``data prepare actplan`` reads."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.annotation.actplan_plans import FEWEST_PLANS, GOLD_PLANS
from lmms_egoplan.benchmarks.actplan.instances import ORIGIN
from lmms_egoplan.construction.actplan.activities import Activity
from lmms_egoplan.construction.actplan.folders import exported_file, replacing
from lmms_egoplan.construction.actplan.views import Views
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Checked, Text, read_as

ANNOTATION = "annotation"

OTHER_TEXT = "gold plans of an instance that has another description now"
OTHER_IMAGES = "gold plans of an instance that has other views now"
UNKNOWN_INSTANCE = "gold plans of an instance that is not built"
TOO_FEW_PLANS = f"instance with fewer than {FEWEST_PLANS} gold plans"


class _Plan(Checked):
    steps: list[Text]


class GoldPlans(Checked):
    """What people wrote for an instance, with what they were shown."""

    id: Text
    description: Text
    images: list[Text]
    plans: list[_Plan]


@dataclass(frozen=True)
class Instance:
    """An instance with description and views."""

    activity: Activity
    text: str
    views: Views

    @property
    def id(self) -> str:
        """Its id, as text."""
        return str(self.views.tour.id)

    @property
    def image_paths(self) -> list[Path]:
        """The files of its views."""
        return [self.views.folder / view.file for view in self.views.views]


def read_gold_plans(folder: Path) -> dict[str, GoldPlans]:
    """Read the gold plans that ``annotate export`` wrote, by instance.

    Raises:
        LmmsEgoplanError: the folder has no such file, or a wrong one; names the line.
    """
    plans: dict[str, GoldPlans] = {}
    for where, text in read_lines(exported_file("--plans", folder, GOLD_PLANS, "written plans")):
        line = read_as(GoldPlans, where, parse_record(where, text))
        if line.id in plans:
            raise LmmsEgoplanError(f"{where}: {line.id} stands in an earlier line, too; export the labels again")
        plans[line.id] = line
    return plans


def finished(
    instances: Sequence[Instance], plans: Mapping[str, GoldPlans]
) -> tuple[list[tuple[Instance, GoldPlans]], list[Rejection]]:
    """Find the instances with gold plans for their present text and views, and the plans that cannot be used."""
    done: list[tuple[Instance, GoldPlans]] = []
    rejections: list[Rejection] = []
    by_id = {instance.id: instance for instance in instances}
    for name, gold in plans.items():
        instance = by_id.get(name)
        if instance is None:
            rejections.append(Rejection("plan", UNKNOWN_INSTANCE, name))
        elif gold.description.strip() != instance.text.strip():
            rejections.append(Rejection("plan", OTHER_TEXT, name))
        elif [Path(image).stem for image in gold.images] != [_digest(path) for path in instance.image_paths]:
            rejections.append(Rejection("plan", OTHER_IMAGES, name))
        elif len(gold.plans) < FEWEST_PLANS:
            rejections.append(Rejection("plan", TOO_FEW_PLANS, name, str(len(gold.plans))))
        else:
            done.append((instance, gold))
    return done, rejections


def write_annotation(done: Sequence[tuple[Instance, GoldPlans]], out: Path) -> None:
    """Write ``annotation`` below a folder, in place of that of an earlier run, whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    with replacing(out / ANNOTATION) as root:
        if done:
            _write(root / ORIGIN, "built\n")
        for instance, gold in done:
            folder = root / instance.id
            folder.mkdir(parents=True)
            for path in instance.image_paths:
                shutil.copyfile(path, folder / path.name)
            for number, plan in enumerate(gold.plans, 1):
                _write(folder / f"plan_gold_{number}.txt", "".join(f"{step}\n" for step in plan.steps))
            number = instance.activity.description
            _write(folder.parent / f"task_description_{number}.txt", instance.text)
            _write(folder.parent / f"problem{number}.bddl", str(instance.activity.problem))


def write_activities(activities: Sequence[Activity], texts: Mapping[str, str], folder: Path) -> None:
    """Write activities in the layout that they were read from, in place of those of an earlier run.

    Args:
        texts: by the activities' keys.

    Raises:
        OSError: the folder cannot be written.
    """
    with replacing(folder) as root:
        for activity in activities:
            own = root / activity.name
            own.mkdir(exist_ok=True)
            _write(own / f"problem{activity.description}.bddl", str(activity.problem))
            _write(own / f"task_description_{activity.description}.txt", texts[activity.key])


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")


def _digest(path: Path) -> str:
    """Return the name under which the annotation page keeps an image, without its suffix."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
