"""Without the extra `annotate`."""

import pytest

from test_extras import python_without


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_page_for_annotators_tells_what_it_needs(package, tmp_path):
    """And the labels of a database can still be counted and exported."""
    out = tmp_path / "out"
    commands = [["annotate", "demo", "actplan", "--out", str(out)]]
    commands += [["annotate", "status", str(out / "actplan.sqlite")]]
    ((code, opened), (other, counted)) = python_without(package, "print(json.dumps(said))", tmp_path, commands)
    assert code == 1
    assert all(fact in opened.splitlines()[-1] for fact in (package, "pip install 'lmms-egoplan[annotate]'"))
    assert other == 0
    assert "0 of 56" in counted
