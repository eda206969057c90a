"""Find accessibility flaws in a page with axe-core."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[1] / "node_modules" / "axe-core" / "axe.min.js"


def skip_without_axe() -> None:
    """Skip the test if axe-core is not installed."""
    if not AXE.exists():
        pytest.skip(f"{AXE} is missing; run npm install --no-save axe-core")


def flaws(page: "Page") -> list[tuple[str, list[str]]]:
    """Return the rule and the elements of each flaw in the current page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (flaw["id"], [node["html"][:300] for node in flaw["nodes"]])
        for flaw in results["violations"]
    ]
