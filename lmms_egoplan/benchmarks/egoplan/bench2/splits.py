"""EgoPlan-Bench2's prepared split, ``"test"``; see `prepare_egoplan_bench2` for what it holds."""

from lmms_egoplan.benchmarks.egoplan.bench2.records import HUB
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, VIDEO_URLS
from lmms_egoplan.storage import PreparedData

SPLIT = "test"
# Sec. 3 of the paper: 1,321 questions.
OFFICIAL = {SPLIT: 1321}
# Raised when what is prepared changes: data of another format are refused.
DATA_FORMAT = 1


def _how(_: str) -> str:
    return (
        f"Prepare it with: lmms-egoplan data prepare egoplan_bench2 --annotations {HUB} --ego4d DIR, or with --clips "
        f"DIR. Videos: {VIDEO_URLS[EGO4D]} (canonical, 288p)"
    )


PREPARED = PreparedData("egoplan_bench2", "EgoPlan-Bench2's {} split", _how, DATA_FORMAT, OFFICIAL)
