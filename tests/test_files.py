"""Resolve paths inside a folder, and lock files."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import lock_file, resolve_inside


def test_resolves_names_inside(tmp_path):
    assert (
        resolve_inside(tmp_path, "P01", "rgb_frames/P01_13")
        == tmp_path.resolve() / "P01/rgb_frames/P01_13"
    )
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "inner").symlink_to("a")
    assert resolve_inside(tmp_path / "link", "inner") == (tmp_path / "real" / "a").resolve()


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "../x", "a/../../x", "/etc", "a\0b", "\ud800"]
)
def test_refuses_names_that_lead_out(tmp_path, name):
    with pytest.raises(LmmsEgoplanError, match=re.escape(str(tmp_path))):
        resolve_inside(tmp_path, "P01", name)


def test_refuses_symlinks_that_lead_out(tmp_path):
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "out").symlink_to(other)
    (root / "P01").mkdir()
    (root / "P01" / "up").symlink_to("../..")
    for parts in (["out"], ["out", "video.mp4"], ["P01", "up", "other"]):
        with pytest.raises(LmmsEgoplanError, match="/".join(parts)):
            resolve_inside(root, *parts)


@given(
    st.lists(
        st.text(max_size=12) | st.sampled_from(["..", "/", "a/..", "../root", "~"]), max_size=4
    )
)
def test_never_leaves_the_root(parts):
    root = Path("/tmp").resolve()
    try:
        path = resolve_inside(root, *parts)
    except LmmsEgoplanError:
        return
    assert path.is_absolute()
    assert path.is_relative_to(root)


def test_a_file_is_locked_once_and_needs_its_folder(tmp_path):
    with lock_file(tmp_path / "lock") as is_locked:
        assert is_locked
        with lock_file(tmp_path / "lock") as is_locked:
            assert not is_locked
    with lock_file(tmp_path / "lock") as is_locked:
        assert is_locked
    with pytest.raises(OSError, match="absent/lock"), lock_file(tmp_path / "absent" / "lock"):
        pass
