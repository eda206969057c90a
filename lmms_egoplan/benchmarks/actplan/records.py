"""ActPlan-1K's instances as released: finding, reading and checking their folders, and BDDL problems of activities."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.activities import InstanceId, parse_id
from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.splits import PREPARED, REPOSITORY_URL
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.validation import is_text, listing

LAYOUT = (
    "DIR/<scene>/<activity>/<n>/sample_<k>/ with images (png, jpg, jpeg), plan_gold_1.txt and plan_gold_2.txt, and "
    f"DIR/<scene>/<activity>/<n>/task_description_<n>.txt, n 0 or 1, as in the full release that {REPOSITORY_URL} "
    "links to"
)

# In DIR, where its instances come from if they are not the release's.
ORIGIN = "origin.txt"
_GOLD_PLANS = ("plan_gold_1.txt", "plan_gold_2.txt")
_IMAGES = (".png", ".jpg", ".jpeg")
# What a folder is called at each level below the source.
_LEVELS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("the name of a scene", is_text),
    ("the name of an activity", is_text),
    ("0 (normal) or 1 (counterfactual)", ("0", "1").__contains__),
    ("sample_<k>, k from 0", lambda name: parse_id(f"scene/activity/0/{name}") is not None),
)


@dataclass(frozen=True)
class Record:
    """One instance as its folder has it.

    id: where it is.
    task_description: to the letter, but for a byte order mark and for line breaks, which are ``\\n``.
    images: the image files' bytes, in the order of their names.
    gold_plan_1, gold_plan_2: steps, one per line that is not blank, without the blanks around it; none where the
        file is absent.
    bddl: the activity's problem in BDDL; "" where there is none that can be read.
    problems: what is wrong, each with its path; whatever it concerns is left empty or out above.
    num_images: image files, damaged ones among them.
    bddl_problem: why there is no `bddl`, with its path; "" where there is. No reason to refuse the instance.
    """

    id: InstanceId
    task_description: str
    images: tuple[bytes, ...]
    gold_plan_1: tuple[str, ...]
    gold_plan_2: tuple[str, ...]
    bddl: str
    problems: tuple[str, ...]
    num_images: int
    bddl_problem: str = ""


def find_instances(source: str | Path) -> tuple[list[InstanceId], dict[str, str]]:
    """The instances of a folder in the release's layout, and the folders that do not fit it.

    Files, and folders that are hidden or called ``__MACOSX``, are passed over.

    Args:
        source: holds ``<scene>/<activity>/<n>/sample_<k>/``.

    Returns:
        The instances, ordered, and for each folder that has another name than its place asks for, or nothing in it,
        its path below `source` and what was expected.

    Raises:
        LmmsEgoplanError: there is no such folder or no instance.
        OSError: a folder cannot be read.
    """
    root = Path(source)
    if not root.is_dir():
        raise LmmsEgoplanError(f"{root}: no such folder; expected {LAYOUT}")
    if (root / "annotation").is_dir():
        raise LmmsEgoplanError(f"{root}: the instances are one folder below. Give that folder: {root / 'annotation'}")
    instances: list[InstanceId] = []
    strays: dict[str, str] = {}
    _descend(root, (), instances, strays)
    if not instances:
        raise LmmsEgoplanError(f"{root}: no instance; expected {LAYOUT}")
    return sorted(instances), strays


def read_instance(source: str | Path, instance: InstanceId, bddl: Path | None = None) -> Record:
    """Read one instance that `find_instances` found, decoding its images; what is wrong is in the record's problems.

    Files other than images, gold plans 1 and 2, the task description and the problem beside it are passed over.

    Args:
        bddl: a folder of one of `bddl.files.LAYOUTS`, for activities without a problem beside the task description.

    Raises:
        OSError: the folder cannot be read.
    """
    folder = Path(source) / str(instance)
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    problems: list[str] = []

    def text(path: Path) -> str:
        try:
            return _read_text(source, path)
        except LmmsEgoplanError as error:
            problems.append(str(error))
            return ""

    description = text(folder.parent / f"task_description_{instance.description}.txt")
    gold_plans = [_steps(text(folder / name)) if name in names else () for name in _GOLD_PLANS]
    if not set(_GOLD_PLANS).intersection(names):
        problems.append(f"{folder}: no gold plan: neither {' nor '.join(_GOLD_PLANS)}")
    image_names = [name for name in names if name.lower().endswith(_IMAGES)]
    if not image_names:
        problems.append(f"{folder}: no image (png, jpg or jpeg)")
    images: list[bytes] = []
    for name in image_names:
        try:
            image = _inside(source, folder / name).read_bytes()
            check_image(image, str(folder / name))
            images.append(image)
        except OSError as error:
            problems.append(f"{folder / name}: cannot be read: {error.strerror}")
        except LmmsEgoplanError as error:
            problems.append(str(error))
    in_bddl, bddl_problem = _read_problem(source, instance, bddl)
    told = tuple(map(_storable, problems))
    return Record(instance, description, tuple(images), *gold_plans, in_bddl, told, len(image_names), bddl_problem)


def read_origin(source: str | Path) -> dict[str, str]:
    """Read where the instances come from if they are not the release's: nothing, or ``{"origin": ...}``.

    Raises:
        LmmsEgoplanError: the file that says so cannot be read or is empty.
    """
    path = Path(source) / ORIGIN
    return {"origin": " ".join(_read_text(source, path).split())} if path.exists() else {}


def _read_problem(source: str | Path, instance: InstanceId, folder: Path | None) -> tuple[str, str]:
    """The text of the activity's problem, and why there is none."""
    path = problem_path(source, instance) or (folder and problem_path(folder, instance))
    if path is None:
        return "", f"{instance.activity}: no problem{instance.description}.bddl"
    try:
        text = _read_text(path.parent, path)
        parse_problem(text, str(path))
    except LmmsEgoplanError as error:
        return "", _storable(str(error))
    return text, ""


def _descend(root: Path, parts: tuple[str, ...], instances: list[InstanceId], strays: dict[str, str]) -> None:
    if len(parts) == len(_LEVELS):
        instances.append(InstanceId(parts[0], parts[1], int(parts[2]), int(parts[3].removeprefix("sample_"))))
        return
    expected, fits = _LEVELS[len(parts)]
    folders = [path for path in root.joinpath(*parts).iterdir() if path.is_dir()]
    names = [path.name for path in folders if path.name != "__MACOSX" and not path.name.startswith(".")]
    if parts and not names:
        strays["/".join(parts)] = f"no folder in it; expected one: {expected}"
    for name in sorted(names):
        if fits(name):
            _descend(root, (*parts, name), instances, strays)
        else:
            strays[_storable("/".join((*parts, name)))] = f"expected {expected}"


def _inside(source: str | Path, path: Path) -> Path:
    """Return the path of a file that is in the source."""
    if not resolve_inside(source, str(path.relative_to(source))).is_file():
        raise LmmsEgoplanError(f"{path}: no such file")
    return path


def _read_text(source: str | Path, path: Path) -> str:
    text = read_text(_inside(source, path))
    if not is_text(text):
        raise LmmsEgoplanError(f"{path}: nothing but blanks in it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _steps(plan: str) -> tuple[str, ...]:
    return tuple(step.strip() for step in official_steps(plan) if step.strip())


def _storable(text: str) -> str:
    """A path's text with what is no UTF-8 in it escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


LAYOUTS = (
    "<activity>/problem<n>.bddl, activity_definitions/<activity>/... or, as the release, <scene>/<activity>/<n>/..."
)


def problem_path(folder: str | Path, instance: InstanceId) -> Path | None:
    """The problem of an instance in a folder of one of `LAYOUTS`; None where there is none.

    n is that of the task description: the counterfactual activities have problems of their own, ``problem1.bddl``.
    """
    name = f"problem{instance.description}.bddl"
    places = (
        Path(instance.activity),
        Path("activity_definitions", instance.activity),
        Path(instance.scene, instance.activity, str(instance.description)),
    )
    paths = (Path(folder, place, name) for place in places)
    return next((path for path in paths if path.is_file()), None)


def check_folder(folder: str | Path) -> None:
    """Check that a folder has problems in one of `LAYOUTS`.

    Raises:
        LmmsEgoplanError: it has none.
    """
    if not any(Path(folder).glob("*/problem*.bddl")) and not any(Path(folder).glob("*/*/**/problem*.bddl")):
        raise LmmsEgoplanError(f"{folder}: no BDDL problem in it; expected {LAYOUTS}, n 0 or 1")


@dataclass(frozen=True)
class ShownInstance:
    """What a model was shown: the task description, and image files in their order."""

    description: str
    images: tuple[bytes, ...]


def instances_of(ids: set[str], source: Path | None) -> dict[str, ShownInstance]:
    """What plans were made for, by `instance_key`.

    Args:
        ids: of the plans' instances.
        source: the release's folder; None for the prepared data.

    Raises:
        LmmsEgoplanError: an instance is not there, or damaged.
    """
    wanted = {instance_key(name) for name in ids}
    found = _prepared(wanted) if source is None else _released(wanted, source)
    if absent := sorted(wanted - found.keys()):
        where = "the prepared data" if source is None else source
        raise LmmsEgoplanError(
            f"{len(absent)} of the plans' {len(wanted)} instances are not in {where}; give the folder of the release "
            f"with --instances, or leave their plans out\n{listing(absent)}"
        )
    return found


def instance_key(name: str) -> str:
    """An id without the folders before it, as plans of other frameworks have them."""
    place = parse_id(name)
    return name if place is None else str(place)


def _released(wanted: set[str], source: Path) -> dict[str, ShownInstance]:
    found = {}
    for instance in find_instances(source)[0]:
        if str(instance) in wanted:
            record = read_instance(source, instance)
            if record.problems:
                raise LmmsEgoplanError("\n".join(record.problems))
            found[str(instance)] = ShownInstance(record.task_description, record.images)
    return found


def _prepared(wanted: set[str]) -> dict[str, ShownInstance]:
    from datasets import Image
    from datasets import Sequence as Several

    rows = PREPARED.load("test").select_columns(["id", "task_description", "images"])
    places = [place for place, name in enumerate(rows["id"]) if name in wanted]
    chosen = rows.select(places).cast_column("images", Several(Image(decode=False)))
    return {
        row["id"]: ShownInstance(row["task_description"], tuple(image["bytes"] for image in row["images"]))
        for row in chosen
    }
