import pytest

from benchmarks.actplan.release import write_release
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.actplan.splits import PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import DataMissingError, split_dir

pytestmark = pytest.mark.usefixtures("data")


@pytest.mark.parametrize("use", [PREPARED.folder, PREPARED.fingerprint, PREPARED.load])
def test_data_that_are_not_prepared_say_how(use, tmp_path):
    with pytest.raises(DataMissingError) as caught:
        use("test")
    for part in (
        f"ActPlan-1K's split test is not prepared in {tmp_path}/data/actplan/test",
        "lmms-egoplan data prepare actplan DIR",
        "https://github.com/HKUST-KnowComp/ActPlan-1K",
        "LMMS_EGOPLAN_DATA",
    ):
        assert part in str(caught.value)


def test_prepared_data_are_found_until_they_are_damaged(tmp_path):
    summary = prepare_actplan(write_release(tmp_path / "source", 3))
    assert PREPARED.folder("test") == split_dir("actplan", "test")
    assert PREPARED.fingerprint("test") == summary["fingerprint"]
    assert len(PREPARED.load("test")) == 3
    (split_dir("actplan", "test") / "summary.json").write_text("{")
    with pytest.raises(LmmsEgoplanError, match=r"summary.json: damaged, prepare the split again"):
        PREPARED.load("test")
