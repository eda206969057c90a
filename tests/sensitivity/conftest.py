import pytest

from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan_bench2
from lmms_egoplan.benchmarks.registry import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Prepare the demo's EgoPlan-Bench2 in a folder for ``LMMS_EGOPLAN_DATA``."""
    folder = tmp_path_factory.mktemp("bench2")
    demo = DEMO_SETS["egoplan_bench2"]
    copy_set(demo, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_egoplan_bench2(folder / demo.prepare[1], Media({"Ego4D": folder / demo.prepare[3]}))
    return folder
