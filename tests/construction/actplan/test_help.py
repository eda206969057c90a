"""The help of `data build actplan`."""

from typing import get_type_hints

from lmms_egoplan.construction.actplan.commands import build
from lmms_egoplan.construction.actplan.prompts import DEFAULT_MODEL


def test_the_help_names_the_default_model():
    """A help that would load it would be slow."""
    (option,) = get_type_hints(build, include_extras=True)["llm"].__metadata__
    assert f"else {DEFAULT_MODEL}." in option.help
