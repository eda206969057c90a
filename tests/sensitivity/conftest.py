from pathlib import Path

import pytest

from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan, prepare_egoplan_bench2
from lmms_egoplan.demo.sets import copy_set


def prepare_questions(folder: Path) -> Path:
    """Prepare the demo's EgoPlan-Bench2 in a folder for ``LMMS_EGOPLAN_DATA``."""
    demo = DEMO_SETS["egoplan_bench2"]
    copy_set(demo, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_egoplan_bench2(folder / demo.prepare[1], Media({"Ego4D": folder / demo.prepare[3]}))
    return folder


def prepare_egoplan_val(folder: Path) -> Path:
    """Prepare the demo's EgoPlan-Bench in a folder for ``LMMS_EGOPLAN_DATA``."""
    demo = DEMO_SETS["egoplan"]
    copy_set(demo, folder)
    media = Media(
        {"EpicKitchens": folder / "egoplan/epic-kitchens", "Ego4D": folder / "egoplan/ego4d"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_egoplan(folder / demo.prepare[1], "val", media)
    return folder


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    return prepare_questions(tmp_path_factory.mktemp("bench2"))


@pytest.fixture
def data(prepared, monkeypatch):
    """Return the folder of prepared questions, and use it."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(prepared))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return prepared
