"""Behaviour without the extra `annotate`."""

import pytest


@pytest.mark.nightly
@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_missing_package_is_named_with_install_command(package, tmp_path):
    """Counting the labels of a database still works."""
    from test_extras import python_without

    out = tmp_path / "out"
    commands = [["annotate", "demo", "actplan", "--out", str(out)]]
    commands += [["annotate", "status", str(out / "actplan.sqlite")]]
    ((code, demo_error), (status, output)) = python_without(
        package, "print(json.dumps(outputs))", tmp_path, commands
    )
    assert code == 1
    assert all(
        fact in demo_error.splitlines()[-1]
        for fact in (package, "pip install 'lmms-egoplan[annotate]'")
    )
    assert status == 0
    assert "0 of 56" in output
