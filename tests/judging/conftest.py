import pytest
from loguru import logger


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data root."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def log():
    """Everything that is logged through loguru, line by line."""
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE", diagnose=True)
    yield lines
    logger.remove(sink)
