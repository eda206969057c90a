"""Try the page on a small rendered set of a benchmark."""

from functools import partial
from pathlib import Path

from lmms_egoplan.annotation.flow import LABELLED
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.serve import Team, create_store, reopen_store
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder


def open_demo(benchmark: str, out: Path, team: Team) -> Store:
    """Open the database of a benchmark's rendered set; create both if missing.

    Args:
        benchmark: One of `LABELLED`.
        out: Folder for the set and the database.
        team: Who labels what.

    Raises:
        LmmsEgoplanError: The benchmark is unknown, or as in `create_store` and `reopen_store`.
    """
    if benchmark not in LABELLED:
        raise LmmsEgoplanError(
            f"Unknown benchmark {benchmark!r}; choose one of {', '.join(LABELLED)}"
        )
    flow = FLOWS[benchmark]
    rendered = DEMO_SETS[benchmark]
    source = out.resolve() / rendered.folder
    if not source.is_dir():
        with whole_folder(source) as folder:
            copy_set(rendered, folder.parent)
    read = partial(flow.demo_items, source)
    db = source.with_name(f"{benchmark}.sqlite")
    if db.exists():
        return reopen_store(flow, db, read, str(source), team)
    return create_store(flow, db, read, team)
