"""ActPlan-1K's prepared data, the one split ``test``; see `prepare_actplan` for what it holds."""

from lmms_egoplan.benchmarks.actplan.records import REPOSITORY_URL
from lmms_egoplan.storage import PreparedData


def _how(_: str) -> str:
    return (
        "Prepare it with: lmms-egoplan data prepare actplan --source DIR, where DIR is the folder annotation of the "
        f"full release, to which {REPOSITORY_URL} links"
    )


PREPARED = PreparedData("actplan", "ActPlan-1K's split {}", _how)
