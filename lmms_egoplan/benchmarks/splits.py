"""Load the prepared splits of all benchmarks and their official sizes from ``splits.yaml``."""

from pydantic import TypeAdapter

from lmms_egoplan.paths import module_yaml
from lmms_egoplan.storage import PreparedData

EGOPLAN, EGOPLAN_BENCH2, EGOTHINK, EGOINTENT, ACTPLAN = SPLITS = TypeAdapter(
    list[PreparedData]
).validate_python(module_yaml(__file__))
