"""The flows: what people label. Each has the module of its name."""

from importlib import import_module

from lmms_egoplan.annotation.flow import Flow

LABELLED = ("egoplan", "egothink", "egointent", "actplan")
"""Benchmarks with a flow and a rendered set to try it on."""
FLOWS = (*LABELLED, "actplan-circumstances", "actplan-plans")


def load_flow(name: str) -> Flow:
    """Import one of `FLOWS`."""
    return import_module(f"lmms_egoplan.annotation.{name.replace('-', '_')}").FLOW
