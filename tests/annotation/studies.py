"""Study files for tests, and copies of the packaged ones."""

import yaml

from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.serve import Team, create_store, reopen_store
from lmms_egoplan.annotation.study import _FOLDER

RATING = """
flow: rating
people:
  annotator: {count: 2}
rounds:
  - {name: rate}
"""
FINAL = """
flow: studied
people:
  annotator: {count: 4}
rounds:
  - {name: rate, per_item: 2}
  - {name: check, final: true}
  - {name: audit, final: true}
"""


def known(*numbers, rating="1"):
    """Return known values by number of the text."""
    return {number: {"rating": rating} for number in numbers}


def packaged(tmp_path, name, **changes):
    """Copy a packaged study with changes, and return its path."""
    study = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text()) | changes
    for one in study["rounds"]:
        if "sample" in one:
            one["sample"] = changes["sample"]
    study.pop("sample", None)
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study))
    return path


def opened(tmp_path, name, items, **changes):
    """Open a database of items with a copy of a packaged study."""
    flow, path = FLOWS[name], packaged(tmp_path, name, **changes)
    return open_store(
        flow, tmp_path / "labels.sqlite", lambda _: items, "items", Team(study=str(path))
    )


def open_store(flow, db, read_items, where, team, **options):
    """Reopen a database, or create it if missing, as the commands do."""
    if db.exists():
        return reopen_store(flow, db, read_items, where, team, **options)
    return create_store(flow, db, read_items, team)
