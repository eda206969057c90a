"""ActPlan-1K's instances: their ids, settings and types, the folders of the release, and the prepared data."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from PIL import Image

from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.validation import is_text, listing

if TYPE_CHECKING:
    from datasets import Dataset

# By the number of the task description.
SETTINGS = ("normal", "counterfactual")
# Sec. 3.4, in its order.
ACTIVITY_TYPES = ("cleaning", "filling", "packing", "putting away", "storing", "other")
REPOSITORY_URL = "https://github.com/HKUST-KnowComp/ActPlan-1K"
# Table 2.
INSTANCES = {"normal": 825, "counterfactual": 362}
# In rows of one setting alone: instances of both.
_WHOLE = "release_size"
LAYOUT = (
    "DIR/<scene>/<activity>/<n>/sample_<k>/ with images (png, jpg, jpeg), plan_gold_1.txt and plan_gold_2.txt, and "
    f"DIR/<scene>/<activity>/<n>/task_description_<n>.txt, n 0 or 1, as in the full release that {REPOSITORY_URL} "
    "links to"
)
LAYOUTS = (
    "<activity>/problem<n>.bddl, activity_definitions/<activity>/... or, as the release, <scene>/<activity>/<n>/..."
)
# In DIR, the origin of its instances if they are not the release's.
ORIGIN = "origin.txt"
_GOLD_PLANS = ("plan_gold_1.txt", "plan_gold_2.txt")
_IMAGES = (".png", ".jpg", ".jpeg")
# Names of folders at each level below the source.
_LEVELS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("the name of a scene", is_text),
    ("the name of an activity", is_text),
    ("0 (normal) or 1 (counterfactual)", ("0", "1").__contains__),
    ("sample_<k>, k from 0", lambda name: parse_id(f"scene/activity/0/{name}") is not None),
)
# Without leading zeros: two folders never have the same number.
_SAMPLE = re.compile("sample_(0|[1-9][0-9]{0,8})")
_Content = TypeVar("_Content")


@dataclass(frozen=True, order=True)
class InstanceId:
    """Which instance: ``<scene>/<activity>/<description>/sample_<sample>``; ordered by these four.

    scene: household environment of iGibson 2, as ``Beechwood_0_int``.
    activity: as ``making_tea``.
    description: 0 for the normal activity, 1 for the counterfactual one.
    sample: which sampling of the activity in the scene, from 0 (sec. 3.4).
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
    """Read an id as `InstanceId` writes it, with or without folders before it; None if it is none."""
    *_, scene, activity, description, sample = ["", "", "", "", *text.split("/")]
    match = _SAMPLE.fullmatch(sample)
    named = all(is_text(name) and name not in (".", "..") for name in (scene, activity))
    if match is None or not named or description not in ("0", "1"):
        return None
    return InstanceId(scene, activity, int(description), int(match[1]))


def activity_type(activity: str) -> str:
    """Return the one of `ACTIVITY_TYPES` that fits an activity's name.

    Sec. 3.4 names the types without assigning activities; ``cleaning_...``, ``filling_...``, ``packing_...``,
    ``storing_...``, ``putting_away_...`` and ``putting_..._away`` are theirs, all others are ``other``.
    """
    if named := re.fullmatch("(cleaning|filling|packing|storing)_.*", activity, re.DOTALL):
        return named[1]
    is_put_away = re.fullmatch("putting_(.*_)?away(_.*)?", activity, re.DOTALL) is not None
    return "putting away" if is_put_away else "other"


def _of_setting(docs: "Dataset", setting: str) -> "Dataset":
    """Select a setting's instances; their split is the setting."""
    chosen = docs.select([index for index, value in enumerate(docs["setting"]) if value == setting])
    return chosen.rename_columns({"split_size": _WHOLE, "setting_size": "split_size"})


def official_instances(doc: Mapping[str, Any]) -> int:
    """Instances that the paper has for the row's task: of its setting after `only_normal` or `only_counterfactual`."""
    return INSTANCES[doc["setting"]] if _WHOLE in doc else ACTPLAN.official["test"]


only_normal = partial(_of_setting, setting="normal")
only_counterfactual = partial(_of_setting, setting="counterfactual")


def views(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the views of the environment as RGB images, in the order of the release; Table 6 is without them.

    Args:
        doc: a row of the prepared dataset.
    """
    return [image.convert("RGB") for image in doc["images"]]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """Return the task description as released; the instruction and the eight actions are part of it (sec. 3.1).

    Args:
        doc: a row of the prepared dataset; only ``task_description`` is read.
    """
    return doc["task_description"]


@dataclass(frozen=True)
class ReleasedInstance:
    r"""One instance as its folder has it.

    task_description: To the letter, except for a byte order mark and line breaks, which are ``\n``.
    images: The image files' bytes, in the order of their names.
    gold_plan_1, gold_plan_2: Steps, one per line that is not blank, without surrounding blanks; none if the file is
        missing.
    bddl: The activity's problem in BDDL; "" if none can be read.
    bddl_problem: Why there is no `bddl`, with its path; else "". No reason to refuse the instance.
    problems: What is wrong, each with its path; the fields concerned are empty or incomplete.
    num_images: Number of image files, including damaged ones.
    """

    id: InstanceId
    task_description: str
    images: tuple[bytes, ...]
    gold_plan_1: tuple[str, ...]
    gold_plan_2: tuple[str, ...]
    bddl: str
    bddl_problem: str
    problems: tuple[str, ...]
    num_images: int


@dataclass(frozen=True)
class ShownInstance:
    """What a model was shown: the task description, and image files in their order."""

    description: str
    images: tuple[bytes, ...]


def find_instances(source: Path) -> tuple[list[InstanceId], dict[str, str]]:
    """Find the instances of a folder in the release's layout, and the folders that do not fit it.

    Files, and folders that are hidden or called ``__MACOSX``, are ignored.

    Args:
        source: Folder with ``<scene>/<activity>/<n>/sample_<k>/``.

    Returns:
        The instances, sorted; and for each folder with a wrong name or no content, its path below `source` and what
        was expected.

    Raises:
        LmmsEgoplanError: There is no such folder, or no instance in it.
        OSError: A folder cannot be read.
    """
    if not source.is_dir():
        raise LmmsEgoplanError(f"{source}: no such folder; expected {LAYOUT}")
    if (source / "annotation").is_dir():
        folder = source / "annotation"
        raise LmmsEgoplanError(f"{source}: the instances are one folder below. Give that folder: {folder}")
    reasons = dict(_descend(source, ()))
    instances = sorted(instance for path, reason in reasons.items() if not reason and (instance := parse_id(path)))
    if not instances:
        raise LmmsEgoplanError(f"{source}: no instance; expected {LAYOUT}")
    return instances, {_storable(path): reason for path, reason in reasons.items() if reason}


def read_instance(source: Path, instance: InstanceId, bddl: Path | None = None) -> ReleasedInstance:
    """Read one instance that `find_instances` found, decoding its images; the record lists what is wrong.

    Files other than images, gold plans 1 and 2, the task description and the problem next to it are ignored.

    Args:
        bddl: A folder with one of `LAYOUTS`, for activities without a problem next to the task description.

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

    description = collect(_read_text, folder.parent / f"task_description_{instance.description}.txt") or ""
    texts = (collect(_read_text, folder / name) or "" if name in names else "" for name in _GOLD_PLANS)
    first, second = (tuple(step.strip() for step in official_steps(text) if step.strip()) for text in texts)
    if not set(_GOLD_PLANS).intersection(names):
        problems.append(f"{folder}: no gold plan: neither {' nor '.join(_GOLD_PLANS)}")
    image_names = [name for name in names if name.lower().endswith(_IMAGES)]
    if not image_names:
        problems.append(f"{folder}: no image (png, jpg or jpeg)")
    images = tuple(image for name in image_names if (image := collect(_read_image, folder / name)) is not None)
    problem, bddl_problem = _read_problem(source, instance, bddl)
    wrong, count = tuple(map(_storable, problems)), len(image_names)
    return ReleasedInstance(instance, description, images, first, second, problem, bddl_problem, wrong, count)


def read_origin(source: Path) -> dict[str, str]:
    """Read the origin of instances that are not the release's: nothing, or ``{"origin": ...}``.

    Raises:
        LmmsEgoplanError: The file with the origin cannot be read or is empty.
    """
    path = source / ORIGIN
    return {"origin": " ".join(_read_text(source, path).split())} if path.exists() else {}


def problem_path(folder: Path, instance: InstanceId) -> Path | None:
    """Return the path of an instance's problem in a folder with one of `LAYOUTS`; None if there is none.

    n is that of the task description: the counterfactual activities have their own problems, ``problem1.bddl``.
    """
    name = f"problem{instance.description}.bddl"
    paths = (
        folder / instance.activity / name,
        folder / "activity_definitions" / instance.activity / name,
        folder / instance.scene / instance.activity / str(instance.description) / name,
    )
    return next((path for path in paths if path.is_file()), None)


def check_folder(folder: Path) -> None:
    """Check that a folder has problems in one of `LAYOUTS`.

    Raises:
        LmmsEgoplanError: It has none.
    """
    if not any(folder.glob("*/problem*.bddl")) and not any(folder.glob("*/*/**/problem*.bddl")):
        raise LmmsEgoplanError(f"{folder}: no BDDL problem in it; expected {LAYOUTS}, n 0 or 1")


def instances_of(ids: set[str], source: Path | None) -> dict[str, ShownInstance]:
    """Return the instances of plans, by `instance_key`.

    Args:
        ids: IDs of the plans' instances.
        source: The release's folder; None for the prepared data.

    Raises:
        LmmsEgoplanError: An instance is missing or damaged.
    """
    wanted = {instance_key(name) for name in ids}
    instances = _prepared(wanted) if source is None else _released(wanted, source)
    if missing := sorted(wanted - instances.keys()):
        where = "the prepared data" if source is None else source
        raise LmmsEgoplanError(
            f"{len(missing)} of the plans' {len(wanted)} instances are not in {where}; give the folder of the release "
            f"with --instances, or leave their plans out\n{listing(missing)}"
        )
    return instances


def instance_key(name: str) -> str:
    """Return an id without the folders before it, which plans of other frameworks have."""
    instance = parse_id(name)
    return name if instance is None else str(instance)


def _released(wanted: set[str], source: Path) -> dict[str, ShownInstance]:
    records = [read_instance(source, each) for each in find_instances(source)[0] if str(each) in wanted]
    if wrong := next((record.problems for record in records if record.problems), None):
        raise LmmsEgoplanError("\n".join(wrong))
    return {str(record.id): ShownInstance(record.task_description, record.images) for record in records}


def _prepared(wanted: set[str]) -> dict[str, ShownInstance]:
    from datasets import Image
    from datasets import Sequence as Several

    rows = ACTPLAN.load("test").select_columns(["id", "task_description", "images"])
    chosen = rows.select([index for index, name in enumerate(rows["id"]) if name in wanted])
    return {
        row["id"]: ShownInstance(row["task_description"], tuple(image["bytes"] for image in row["images"]))
        for row in chosen.cast_column("images", Several(Image(decode=False)))
    }


def _descend(root: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the paths of instances, and those of folders that do not fit the layout, with the reason."""
    if len(parts) == len(_LEVELS):
        yield "/".join(parts), ""
        return
    expected, fits = _LEVELS[len(parts)]
    folders = [path for path in root.joinpath(*parts).iterdir() if path.is_dir()]
    names = [path.name for path in folders if path.name != "__MACOSX" and not path.name.startswith(".")]
    if parts and not names:
        yield "/".join(parts), f"no folder in it; expected one: {expected}"
    for name in sorted(names):
        if fits(name):
            yield from _descend(root, (*parts, name))
        else:
            yield "/".join((*parts, name)), f"expected {expected}"


def _read_problem(source: Path, instance: InstanceId, folder: Path | None) -> tuple[str, str]:
    """Return the text of the activity's problem, and why there is none."""
    path = problem_path(source, instance) or (folder and problem_path(folder, instance))
    if path is None:
        return "", f"{instance.activity}: no problem{instance.description}.bddl"
    try:
        text = _read_text(path.parent, path)
        parse_problem(text, str(path))
    except LmmsEgoplanError as error:
        return "", _storable(str(error))
    return text, ""


def _read_text(source: Path, path: Path) -> str:
    text = read_text(_inside(source, path))
    if not is_text(text):
        raise LmmsEgoplanError(f"{path}: nothing but blanks in it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_image(source: Path, path: Path) -> bytes:
    try:
        content = _inside(source, path).read_bytes()
    except OSError as error:
        raise LmmsEgoplanError(f"{path}: cannot be read: {error.strerror}") from error
    check_image(content, str(path))
    return content


def _inside(source: Path, path: Path) -> Path:
    """Return the path of a file that is in the source."""
    if not resolve_inside(source, str(path.relative_to(source))).is_file():
        raise LmmsEgoplanError(f"{path}: no such file")
    return path


def _storable(text: str) -> str:
    """Return a path's text with anything that is not UTF-8 escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
