"""EgoIntent's prepared steps, the one split ``"test"``; see `prepare_egointent` for what it holds."""

from typing import Any

from lmms_egoplan.benchmarks.egointent.records import FORMAT, REPOSITORY_URL
from lmms_egoplan.storage import PreparedData

# Sec. 3.1.
OFFICIAL = {"test": 3014}
# Raised when what is prepared changes: data of another format are refused. 2: Goal-Step steps have a category.
DATA_FORMAT = 2


def _how(_: str) -> str:
    return (
        "Prepare it with: lmms-egoplan data prepare egointent hub --videos DIR, or with a file of annotations in place "
        f"of hub ({REPOSITORY_URL}; {FORMAT} describes the file that is read here). Without them: "
        "lmms-egoplan data build egointent --help"
    )


def _substitute(summary: dict[str, Any]) -> str | None:
    counts = summary.get("counts")
    return "Goal-Step steps, not EgoIntent's" if isinstance(counts, dict) and "categories" in counts else None


PREPARED = PreparedData("egointent", "EgoIntent's {} split", _how, DATA_FORMAT, OFFICIAL, _substitute, DATA_FORMAT)
