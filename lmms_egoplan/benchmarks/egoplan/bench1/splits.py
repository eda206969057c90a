"""EgoPlan's prepared splits, ``"val"`` and ``"test"``; see `prepare_egoplan` for what they hold."""

from lmms_egoplan.benchmarks.egoplan.bench1.records import ANNOTATIONS_URL
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, VIDEO_URLS
from lmms_egoplan.storage import PreparedData

_ANNOTATIONS = {"val": "EgoPlan_validation.json", "test": "EgoPlan_test.json"}

# Table 2.
OFFICIAL = {"val": 3355, "test": 1584}
# Raised when what is prepared changes. Data of another format are refused.
DATA_FORMAT = 2


def _how(split: str) -> str:
    return (
        f"Prepare it with: lmms-egoplan data prepare egoplan {_ANNOTATIONS[split]} --split {split} "
        f"--epic-kitchens DIR --ego4d DIR, or with --clips DIR. Annotations: {ANNOTATIONS_URL}; videos: "
        f"{VIDEO_URLS[EPIC_KITCHENS]} (RGB frames) and {VIDEO_URLS[EGO4D]} (canonical, 288p)"
    )


PREPARED = PreparedData("egoplan", "EgoPlan's {} split", _how, DATA_FORMAT, OFFICIAL)
