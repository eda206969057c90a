from pathlib import Path

import certifi
import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Write the first of certifi's certificates to a file."""
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.mktemp("certificates") / "first.pem"
    path.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    return path


@pytest.fixture(scope="module", autouse=True)
def few_certificates(certificate):
    """Load one certificate instead of all, which take 20 ms for each client. The servers of these tests use no TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Create an empty data root."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_learnt(monkeypatch):
    """Forget earlier servers, which may have had the same port."""
    monkeypatch.setattr("lmms_egoplan.judging.client._limit_names", {})
    monkeypatch.setattr("lmms_egoplan.judging.client._without_schema", set())
