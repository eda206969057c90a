"""Write finished instances in the layout of the full release.

``data prepare actplan`` reads it.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.annotation.actplan_plans import FEWEST_PLANS, GOLD_PLANS
from lmms_egoplan.benchmarks.actplan.instances import ORIGIN
from lmms_egoplan.construction.actplan.activities import Activity
from lmms_egoplan.construction.actplan.views import Views
from lmms_egoplan.construction.folders import read_export
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_digest, whole_folder
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Checked, Text

ANNOTATION = "annotation"

OTHER_TEXT = "gold plans for another description of the instance"
OTHER_IMAGES = "gold plans for other views of the instance"
UNKNOWN_INSTANCE = "gold plans for an instance that was not built"
TOO_FEW_PLANS = f"instance with fewer than {FEWEST_PLANS} gold plans"


class _Plan(Checked):
    steps: list[Text]


class GoldPlans(Checked):
    """The gold plans that people wrote for an instance.

    They come with the description and images that the people saw.
    """

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
        """The instance's id as text."""
        return str(self.views.tour.id)

    @property
    def image_paths(self) -> list[Path]:
        """Paths of the views' image files."""
        return [self.views.folder / view.file for view in self.views.views]


def read_gold_plans(folder: Path) -> dict[str, GoldPlans]:
    """Read the gold plans from ``annotate export``, by instance.

    Raises:
        LmmsEgoplanError: The folder does not contain the file, or the file has another format; the
            error names the line.
    """
    plans: dict[str, GoldPlans] = {}
    for where, line in read_export("--plans", folder, GOLD_PLANS, "written plans", GoldPlans):
        if line.id in plans:
            raise LmmsEgoplanError(f"{where}: duplicate id {line.id}; export the labels again")
        plans[line.id] = line
    return plans


def finished(
    instances: Sequence[Instance], plans: Mapping[str, GoldPlans]
) -> tuple[list[tuple[Instance, GoldPlans]], list[Rejection]]:
    """Return the instances with gold plans for their current text and views.

    Also return the plans that cannot be used.
    """
    finished_instances: list[tuple[Instance, GoldPlans]] = []
    rejections: list[Rejection] = []
    by_id = {instance.id: instance for instance in instances}
    for name, gold in plans.items():
        instance = by_id.get(name)
        if instance is None:
            rejections.append(Rejection("plan", UNKNOWN_INSTANCE, name))
        elif gold.description.strip() != instance.text.strip():
            rejections.append(Rejection("plan", OTHER_TEXT, name))
        # The annotation page names an image by the beginning of its digest.
        elif [Path(image).stem for image in gold.images] != [
            file_digest(path)[:32] for path in instance.image_paths
        ]:
            rejections.append(Rejection("plan", OTHER_IMAGES, name))
        elif len(gold.plans) < FEWEST_PLANS:
            rejections.append(Rejection("plan", TOO_FEW_PLANS, name, str(len(gold.plans))))
        else:
            finished_instances.append((instance, gold))
    return finished_instances, rejections


def write_annotation(finished_instances: Sequence[tuple[Instance, GoldPlans]], out: Path) -> None:
    """Write the folder ``annotation`` in `out`, atomically replacing that of an earlier run.

    Raises:
        OSError: The folder cannot be written.
    """
    with whole_folder(out / ANNOTATION) as root:
        if finished_instances:
            _write(root / ORIGIN, "built\n")
        for instance, gold in finished_instances:
            folder = root / instance.id
            folder.mkdir(parents=True)
            for path in instance.image_paths:
                shutil.copyfile(path, folder / path.name)
            for number, plan in enumerate(gold.plans, 1):
                _write(
                    folder / f"plan_gold_{number}.txt", "".join(f"{step}\n" for step in plan.steps)
                )
            _write_activity(folder.parent, instance.activity, instance.text)


def write_activities(
    activities: Sequence[Activity], texts: Mapping[str, str], folder: Path
) -> None:
    """Write activities in the layout of `read_activities`, replacing those of an earlier run.

    Args:
        activities: The activities.
        texts: Descriptions by the activities' keys.
        folder: Output folder.

    Raises:
        OSError: The folder cannot be written.
    """
    with whole_folder(folder) as root:
        for activity in activities:
            _write_activity(root / activity.name, activity, texts[activity.key])


def _write_activity(folder: Path, activity: Activity, text: str) -> None:
    folder.mkdir(exist_ok=True)
    _write(folder / f"problem{activity.description}.bddl", str(activity.problem))
    _write(folder / f"task_description_{activity.description}.txt", text)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")
