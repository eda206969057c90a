"""EgoIntent's prepared steps, the one split ``"test"``; see `prepare_egointent` for what it holds."""

from lmms_egoplan.benchmarks.egointent.records import FORMAT
from lmms_egoplan.storage import PreparedData

# Raised when what is prepared changes: data of another format are refused. 2: Goal-Step steps have a category.
DATA_FORMAT = 2


def _how(_: str) -> str:
    return (
        "Prepare it with: lmms-egoplan data prepare egointent --annotations FILE --videos DIR. The published "
        f"annotations are to be had from EgoIntent's authors; {FORMAT} describes the file. Without them: lmms-egoplan "
        "data build egointent --help"
    )


PREPARED = PreparedData("egointent", "EgoIntent's {} split", _how, DATA_FORMAT)
