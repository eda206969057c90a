"""Task descriptions and images of instances that plans are for, from the prepared data or the release."""

from dataclasses import dataclass
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.activities import parse_id
from lmms_egoplan.benchmarks.actplan.records import find_instances, read_instance
from lmms_egoplan.benchmarks.actplan.splits import PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import listing


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
