"""EgoThink's prepared dimensions, a split each, by `Dimension.name`; see `prepare_egothink` for what they hold."""

from lmms_egoplan.benchmarks.egothink.records import HUB_DATASET, REPOSITORY_URL
from lmms_egoplan.storage import PreparedData

# Raised when what is prepared changes: data of another format are refused.
DATA_FORMAT = 1


def _how(_: str) -> str:
    return (
        "Prepare all twelve with: lmms-egoplan data prepare egothink --source hub (the dataset "
        f"{HUB_DATASET}), or --source DIR with the data of {REPOSITORY_URL}"
    )


PREPARED = PreparedData("egothink", "EgoThink's dimension {}", _how, DATA_FORMAT)
