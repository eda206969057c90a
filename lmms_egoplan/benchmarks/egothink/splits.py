"""EgoThink's prepared dimensions, a split each, by `Dimension.name`; see `prepare_egothink` for what they hold."""

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.records import HUB_DATASET, REPOSITORY_URL
from lmms_egoplan.storage import PreparedData

# Table 4.
OFFICIAL = {dimension.name: dimension.instances for dimension in DIMENSIONS}
# Raised when what is prepared changes: data of another format are refused.
DATA_FORMAT = 1


def _how(_: str) -> str:
    return (
        f"Prepare all twelve with: lmms-egoplan data prepare egothink hub (the dataset {HUB_DATASET}), or with the "
        f"folder of a clone of {REPOSITORY_URL} instead of hub"
    )


PREPARED = PreparedData("egothink", "EgoThink's dimension {}", _how, DATA_FORMAT, OFFICIAL)
