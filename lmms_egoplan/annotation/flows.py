"""List all flows."""

from collections.abc import Mapping

from lmms_egoplan.annotation import (
    actplan,
    actplan_circumstances,
    actplan_plans,
    egointent,
    egoplan,
    egoplan_failures,
    egothink,
    egothink_questions,
)
from lmms_egoplan.annotation.flow import Flow

_ALL: tuple[Flow, ...] = (
    egoplan.FLOW,
    egothink.FLOW,
    egointent.FLOW,
    actplan.FLOW,
    egoplan_failures.FLOW,
    egothink_questions.FLOW,
    actplan_circumstances.FLOW,
    actplan_plans.FLOW,
)

FLOWS: Mapping[str, Flow] = {flow.name: flow for flow in _ALL}
"""All flows by name."""
