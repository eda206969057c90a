import pytest

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.egothink.splits import PREPARED
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import DataMissingError, split_dir

pytestmark = pytest.mark.usefixtures("data")


@pytest.mark.parametrize("use", [PREPARED.folder, PREPARED.fingerprint, PREPARED.load])
def test_a_dimension_that_is_not_prepared_says_how(use, tmp_path):
    with pytest.raises(DataMissingError) as caught:
        use("counting")
    for part in (
        f"EgoThink's dimension counting is not prepared in {tmp_path}/data/egothink/counting",
        "lmms-egoplan data prepare egothink hub",
        "https://github.com/AdaCheng/EgoThink",
        "LMMS_EGOPLAN_DATA",
    ):
        assert part in str(caught.value)


def test_prepared_dimensions_are_found(tmp_path):
    summary = prepare_egothink(write_source(tmp_path / "source"))[6]
    assert PREPARED.folder("counting") == split_dir("egothink", "counting")
    assert PREPARED.fingerprint("counting") == summary["fingerprint"]
    assert PREPARED.load("counting")["id"][:] == ["counting/1", "counting/2"]


def test_a_damaged_summary_is_an_error(tmp_path):
    prepare_egothink(write_source(tmp_path / "source"))
    (split_dir("egothink", "counting") / "summary.json").write_text("{")
    with pytest.raises(LmmsEgoplanError, match=r"summary.json: damaged, prepare the split again"):
        PREPARED.load("counting")
