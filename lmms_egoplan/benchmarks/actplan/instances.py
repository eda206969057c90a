"""Define an instance (secs. 3.1 and 3.4), and read it from the release or the prepared data."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.validation import is_text, listing

if TYPE_CHECKING:
    from datasets import Dataset


# Indexed by the number of the task description.
SETTINGS = ("normal", "counterfactual")
# In the order of sec. 3.4.
ACTIVITY_TYPES = ("cleaning", "filling", "packing", "putting away", "storing", "other")
REPOSITORY_URL = "https://github.com/HKUST-KnowComp/ActPlan-1K"
# Table 2.
INSTANCES = {"normal": 825, "counterfactual": 362}
# Column that keeps the number of instances of both settings after a selection by setting.
_WHOLE = "release_size"
# Layout of the release's instances, for messages.
LAYOUT = (
    "DIR/<scene>/<activity>/<n>/sample_<k>/ with images (png, jpg, jpeg), plan_gold_1.txt and "
    "plan_gold_2.txt; and DIR/<scene>/<activity>/<n>/task_description_<n>.txt, where n is 0 or 1. "
    f"The full release has this layout; {REPOSITORY_URL} links to it"
)
# File in DIR that names the origin of its instances if they are not the release's.
ORIGIN = "origin.txt"
_GOLD_PLANS = ("plan_gold_1.txt", "plan_gold_2.txt")
_IMAGES = (".png", ".jpg", ".jpeg")
# Expected folder name and check for each level below the source.
_LEVELS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("the name of a scene", is_text),
    ("the name of an activity", is_text),
    ("0 (normal) or 1 (counterfactual)", ("0", "1").__contains__),
    ("sample_<k>, k from 0", lambda name: parse_id(f"scene/activity/0/{name}") is not None),
)
# No leading zeros, because two folders must not have the same number.
_SAMPLE = re.compile("sample_(0|[1-9][0-9]{0,8})")
_Content = TypeVar("_Content")


@dataclass(frozen=True, order=True)
class InstanceId:
    """ID of an instance, ``<scene>/<activity>/<description>/sample_<sample>``.

    IDs are ordered by these four fields.

    scene: Household environment of iGibson 2, such as ``Beechwood_0_int``.
    activity: Name such as ``making_tea``.
    description: 0 for the normal activity, 1 for the counterfactual one.
    sample: Number of the activity's sampling in the scene, from 0 (sec. 3.4).
    """

    scene: str
    activity: str
    description: int
    sample: int

    @property
    def setting(self) -> str:
        """One of `SETTINGS`."""
        return SETTINGS[self.description]

    def __str__(self) -> str:
        return f"{self.scene}/{self.activity}/{self.description}/sample_{self.sample}"


def parse_id(text: str) -> InstanceId | None:
    """Parse an id in the format of `InstanceId`, with or without parent folders.

    Returns:
        The id; None if the text is not an id.
    """
    *_, scene, activity, description, sample = ["", "", "", "", *text.split("/")]
    match = _SAMPLE.fullmatch(sample)
    has_names = all(is_text(name) and name not in (".", "..") for name in (scene, activity))
    if match is None or not has_names or description not in ("0", "1"):
        return None
    return InstanceId(scene, activity, int(description), int(match[1]))


def activity_type(activity: str) -> str:
    """Return an activity's type, one of `ACTIVITY_TYPES`.

    Sec. 3.4 names the types but assigns no activities, so the name decides. Types exist for
    ``cleaning_...``, ``filling_...``, ``packing_...``, ``storing_...``, ``putting_away_...`` and
    ``putting_..._away``; all other activities are ``other``.
    """
    match = re.fullmatch("(cleaning|filling|packing|storing)_.*", activity, re.DOTALL)
    if match is not None:
        return match[1]
    if re.fullmatch("putting_(.*_)?away(_.*)?", activity, re.DOTALL):
        return "putting away"
    return "other"


def _of_setting(docs: "Dataset", setting: str) -> "Dataset":
    """Select the instances of one setting and count them as the split's size."""
    selected = docs.select(
        [index for index, value in enumerate(docs["setting"]) if value == setting]
    )
    return selected.rename_columns({"split_size": _WHOLE, "setting_size": "split_size"})


def official_instances(doc: Mapping[str, Any]) -> int:
    """Return the paper's number of instances, of one setting if the task selects one."""
    return INSTANCES[doc["setting"]] if _WHOLE in doc else ACTPLAN.official["test"]


only_normal = partial(_of_setting, setting="normal")
only_counterfactual = partial(_of_setting, setting="counterfactual")


@dataclass(frozen=True)
class ReleasedInstance:
    r"""One instance, read from its folder.

    task_description: The exact text, without a byte order mark and with ``\n`` as line break.
    images: Bytes of the image files, in the order of their names.
    gold_plan_1: Steps of the first gold plan, one per non-blank line, stripped; empty if the file
    is missing.
    gold_plan_2: The same for the second gold plan.
    problems: Everything that is wrong, with paths; the affected fields are empty or incomplete.
    num_images: Number of image files, including damaged ones.
    """

    id: InstanceId
    task_description: str
    images: tuple[bytes, ...]
    gold_plan_1: tuple[str, ...]
    gold_plan_2: tuple[str, ...]
    problems: tuple[str, ...]
    num_images: int


@dataclass(frozen=True, slots=True)
class ShownInstance:
    """A model's input: the task description, and the bytes of the image files in order."""

    description: str
    images: tuple[bytes, ...]


def find_instances(source: Path) -> tuple[list[InstanceId], dict[str, str]]:
    """Find all instances in a folder with the release's layout.

    Subfolders that do not fit the layout are returned, too. Files, hidden folders and folders named
    ``__MACOSX`` are ignored.

    Args:
        source: Folder that contains ``<scene>/<activity>/<n>/sample_<k>/``.

    Returns:
        The sorted instances; and for each folder with a wrong name or no content, its path below
        `source` and the expected layout.

    Raises:
        LmmsEgoplanError: The folder does not exist, or contains no instance.
        OSError: A folder cannot be read.
    """
    if not source.is_dir():
        raise LmmsEgoplanError(f"{source}: no such folder; expected {LAYOUT}")
    if (source / "annotation").is_dir():
        folder = source / "annotation"
        raise LmmsEgoplanError(
            f"{source}: the instances are in its subfolder annotation; pass that folder: {folder}"
        )
    instances: list[InstanceId] = []
    invalid_folders: dict[str, str] = {}
    for path, reason in _descend(source, ()):
        instance = parse_id(path)
        if reason:
            invalid_folders[_storable(path)] = reason
        elif instance is not None:
            instances.append(instance)
    if not instances:
        raise LmmsEgoplanError(f"{source}: no instance; expected {LAYOUT}")
    return sorted(instances), invalid_folders


def read_instance(source: Path, instance: InstanceId) -> ReleasedInstance:
    """Read one instance from `find_instances`, and list everything that is wrong.

    Only the images, gold plans 1 and 2 and the task description are read. Images are decoded, to
    find damaged ones.

    Raises:
        OSError: The folder cannot be read.
    """
    folder = source / str(instance)
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    problems: list[str] = []

    def collect(read: Callable[[Path, Path], _Content], path: Path) -> _Content | None:
        try:
            return read(source, path)
        except LmmsEgoplanError as error:
            problems.append(str(error))
            return None

    description = collect(
        _read_text, folder.parent / f"task_description_{instance.description}.txt"
    )
    gold_plans: list[tuple[str, ...]] = []
    for name in _GOLD_PLANS:
        text = collect(_read_text, folder / name) if name in names else None
        steps = [step.strip() for step in official_steps(text or "")]
        gold_plans.append(tuple(step for step in steps if step))
    if not set(_GOLD_PLANS).intersection(names):
        problems.append(f"{folder}: no gold plan; expected {' or '.join(_GOLD_PLANS)}")
    image_names = [name for name in names if name.lower().endswith(_IMAGES)]
    if not image_names:
        problems.append(f"{folder}: no image (png, jpg or jpeg)")
    images = [collect(_read_image, folder / name) for name in image_names]
    return ReleasedInstance(
        id=instance,
        task_description=description or "",
        images=tuple(image for image in images if image is not None),
        gold_plan_1=gold_plans[0],
        gold_plan_2=gold_plans[1],
        problems=tuple(map(_storable, problems)),
        num_images=len(image_names),
    )


def read_origin(source: Path) -> dict[str, str]:
    """Read the origin of instances that are not the release's.

    Returns:
        ``{"origin": ...}``, or {} for the release.

    Raises:
        LmmsEgoplanError: The file with the origin cannot be read or is empty.
    """
    path = source / ORIGIN
    if not path.exists():
        return {}
    return {"origin": " ".join(_read_text(source, path).split())}


def instances_of(ids: set[str], source: Path | None) -> dict[str, ShownInstance]:
    """Return the instances that plans belong to, by `instance_key`.

    Args:
        ids: IDs of the plans' instances.
        source: The release's folder; None for the prepared data.

    Raises:
        LmmsEgoplanError: An instance is missing or damaged.
    """
    keys = {instance_key(name) for name in ids}
    if source is None:
        instances = _prepared(keys)
        where = "the prepared data"
    else:
        instances = _released(keys, source)
        where = str(source)
    missing = sorted(keys - instances.keys())
    if missing:
        raise LmmsEgoplanError(
            f"{len(missing)} of the plans' {len(keys)} instances are missing in {where}; pass the "
            f"release's folder with --instances, or remove these plans\n{listing(missing)}"
        )
    return instances


def instance_key(name: str) -> str:
    """Return an id without its parent folders, which plans of other frameworks have."""
    instance = parse_id(name)
    return name if instance is None else str(instance)


def _released(keys: set[str], source: Path) -> dict[str, ShownInstance]:
    """Read instances from the release's folder, by id."""
    records = [
        read_instance(source, instance)
        for instance in find_instances(source)[0]
        if str(instance) in keys
    ]
    for record in records:
        if record.problems:
            raise LmmsEgoplanError("\n".join(record.problems))
    return {
        str(record.id): ShownInstance(record.task_description, record.images) for record in records
    }


def _prepared(keys: set[str]) -> dict[str, ShownInstance]:
    """Read instances from the prepared data, by id."""
    from datasets import Image
    from datasets import Sequence as ListOf

    rows = ACTPLAN.load("test").select_columns(["id", "task_description", "images"])
    selected = rows.select([index for index, name in enumerate(rows["id"]) if name in keys])
    instances: dict[str, ShownInstance] = {}
    for row in selected.cast_column("images", ListOf(Image(decode=False))):
        images = tuple(image["bytes"] for image in row["images"])
        instances[row["id"]] = ShownInstance(row["task_description"], images)
    return instances


def _descend(root: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the paths of instances, and of folders that do not fit the layout.

    Yields:
        The path below `root`, and the reason why it does not fit; "" for an instance.
    """
    if len(parts) == len(_LEVELS):
        yield "/".join(parts), ""
        return
    expected, fits = _LEVELS[len(parts)]
    folders = [path for path in root.joinpath(*parts).iterdir() if path.is_dir()]
    names = [
        path.name for path in folders if path.name != "__MACOSX" and not path.name.startswith(".")
    ]
    if parts and not names:
        yield "/".join(parts), f"contains no folder; expected one: {expected}"
    for name in sorted(names):
        if fits(name):
            yield from _descend(root, (*parts, name))
        else:
            yield "/".join((*parts, name)), f"expected {expected}"


def _read_text(source: Path, path: Path) -> str:
    text = read_text(_inside(source, path))
    if not is_text(text):
        raise LmmsEgoplanError(f"{path}: contains only blanks")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_image(source: Path, path: Path) -> bytes:
    try:
        content = _inside(source, path).read_bytes()
    except OSError as error:
        raise LmmsEgoplanError(f"{path}: cannot be read: {error.strerror}") from error
    check_image(content, str(path))
    return content


def _inside(source: Path, path: Path) -> Path:
    """Return the path after checking that the file exists inside the source."""
    if not resolve_inside(source, str(path.relative_to(source))).is_file():
        raise LmmsEgoplanError(f"{path}: no such file")
    return path


def _storable(text: str) -> str:
    """Return a path's text with anything that is not UTF-8 escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
