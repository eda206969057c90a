"""The prepared splits of both benchmarks, with their official sizes; see `prepare` for what they contain."""

from lmms_egoplan.benchmarks.egoplan.records import ANNOTATIONS_URL, EGO4D, EPIC_KITCHENS, HUB, LIST_KEYS, VIDEO_URLS
from lmms_egoplan.storage import PreparedData

# The one split of EgoPlan-Bench2.
BENCH2_SPLIT = "test"


def _how(split: str) -> str:
    return (
        f"Prepare it with: lmms-egoplan data prepare egoplan {LIST_KEYS[split]}.json --split {split} "
        f"--epic-kitchens DIR --ego4d DIR, or with --clips DIR. Annotations: {ANNOTATIONS_URL}; videos: "
        f"{VIDEO_URLS[EPIC_KITCHENS]} (RGB frames) and {VIDEO_URLS[EGO4D]} (canonical, 288p)"
    )


def _how_bench2(_split: str) -> str:
    return (
        f"Prepare it with: lmms-egoplan data prepare egoplan_bench2 {HUB} --ego4d DIR, or with --clips DIR. Videos: "
        f"{VIDEO_URLS[EGO4D]} (canonical, 288p)"
    )


# Table 2, and sec. 3 of EgoPlan-Bench2. Raise the format when what is prepared changes; format 1 has no clips.
EGOPLAN = PreparedData("egoplan", "EgoPlan's {} split", _how, data_format=2, official={"val": 3355, "test": 1584})
EGOPLAN_BENCH2 = PreparedData("egoplan_bench2", "EgoPlan-Bench2's {} split", _how_bench2, official={BENCH2_SPLIT: 1321})
