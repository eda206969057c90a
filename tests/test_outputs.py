import subprocess
import sys
from pathlib import Path

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import LOCK, UNFINISHED, whole_folder, write_whole
from lmms_egoplan.outputs import MARKER, clear, output_file, output_folder, results_of
from volumes import volume_of


def contents(folder):
    """Return all files except the marker and the lock."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (MARKER, LOCK)
    }


def write_results(out, **texts):
    """Run a command that writes results; ``__`` in a name is a slash."""
    with output_folder(out, "command"), results_of(out) as folder:
        for name, text in texts.items():
            write_whole(folder / name.replace("__", "/"), text)


def test_results_replace_those_of_the_earlier_run(tmp_path):
    out = tmp_path / "out"
    write_results(out, a="1", old__b="1", old__deeper__c="1")
    (out / "old" / "mine").write_text("mine")
    write_results(out, a="2", new__d="2")
    assert contents(out) == {"a": "2", "new/d": "2", "old/mine": "mine"}
    assert not (out / "old" / "deeper").exists()


def change(path):
    path.write_text("mine")


def replace_by_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("mine")


@pytest.mark.parametrize("name", ["b", "new"])
@pytest.mark.parametrize("changed", [change, replace_by_a_folder])
def test_a_run_that_would_replace_another_file_replaces_nothing(tmp_path, name, changed):
    out = tmp_path / "out"
    write_results(out, a="1", b="1", c="1")
    path = out / name
    path.touch()
    changed(path)
    before = contents(out)
    with pytest.raises(LmmsEgoplanError, match=f"{path}: this run would replace a file"):
        write_results(out, a="2", b="2", new="2")
    assert contents(out) == before
    with (
        pytest.raises(LmmsEgoplanError, match=str(path)),
        output_folder(out, "command", ["a", name]),
    ):
        pytest.fail("refused only after the start")


def test_a_folder_of_an_earlier_version_is_refused_by_name(tmp_path):
    former = tmp_path / ".lmms-egoplan.json"
    former.write_text('{"command": "command"}')
    with pytest.raises(
        LmmsEgoplanError, match=rf"^--out {tmp_path}: .*earlier version.*{former.name}"
    ):
        write_results(tmp_path, a="1")
    assert contents(tmp_path) == {former.name: '{"command": "command"}'}


def test_a_file_in_place_of_a_folder_is_kept(tmp_path):
    out = tmp_path / "out"
    write_results(out, a="1")
    (out / "figures").write_text("mine")
    with pytest.raises(LmmsEgoplanError, match="figures"):
        write_results(out, a="2", figures__b="2")
    assert contents(out) == {"a": "1", "figures": "mine"}


def test_files_that_a_later_run_resumes_from_are_replaced_but_not_deleted(tmp_path):
    out = tmp_path / "out"
    with output_folder(out, "command"):
        write_whole(out / "cache", "1")
        with whole_folder(out / "views") as folder:
            (folder / "1").write_text("1")
    with output_folder(out, "command"):
        with results_of(out) as folder:
            write_whole(folder / "a", "2")
        write_whole(out / "cache", "2")
    (out / "views" / "mine").write_text("mine")
    with output_folder(out, "command"):
        with (
            pytest.raises(LmmsEgoplanError, match="views/mine"),
            whole_folder(out / "views") as new,
        ):
            (new / "1").write_text("3")
        (out / "cache").write_text("mine")
        with pytest.raises(LmmsEgoplanError, match="cache"):
            write_whole(out / "cache", "3")
    assert contents(out) == {"a": "2", "cache": "mine", "views/1": "1", "views/mine": "mine"}


PROGRAM = """
import os, signal, sys
from pathlib import Path
from lmms_egoplan.files import whole_file
from lmms_egoplan.outputs import output_folder, results_of

out, count = Path(sys.argv[1]), int(sys.argv[2])
replace = Path.replace

def replace_or_die(self, target):
    global count
    count -= 1
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = replace_or_die
with output_folder(out, "command"), results_of(out, last="seal") as folder:
    for name in ("a", "b", "seal"):
        (folder / name).write_text("2")
    for name in ("1", "2"):
        with whole_file(out / "cache" / name) as unfinished:
            unfinished.write_text("2")
"""


@pytest.mark.parametrize("replaced", range(7))
def test_a_killed_run_is_repeated(tmp_path, replaced):
    """The program is killed before it gives a file its name: two cached files, the mark of
    unfinished results, two results, and the mark of finished ones.
    """
    out = tmp_path / "out"
    with output_folder(out, "command"), results_of(out) as folder:
        for name in ("a", "b", "old", "seal"):
            (folder / name).write_text("1")
    (out / "mine").write_text("mine")
    command = [sys.executable, "-c", PROGRAM, out]
    subprocess.run([*command, str(replaced)], check=replaced == 0)
    after = contents(out)
    assert {after[name] for name in ("a", "b")} <= {"1", "2"}
    if 0 < replaced < 4:
        assert after["seal"] == after["a"] == after["b"] == "1"
    elif replaced:
        assert after["seal"] == ""
    subprocess.run([*command, "0"], check=True)
    assert contents(out) == {
        "mine": "mine",
        **dict.fromkeys(("a", "b", "seal", "cache/1", "cache/2"), "2"),
    }
    assert not [*out.rglob(f"{UNFINISHED}*")]


def test_a_line_that_was_not_written_completely_is_ignored(tmp_path):
    out = tmp_path / "out"
    write_results(out, a="1")
    with (out / MARKER).open("a") as marker:
        marker.write('\n["b", 1')
    write_results(out, a="2", c="2")
    write_results(out, a="3", c="3")
    assert contents(out) == {"a": "3", "c": "3"}
    (out / MARKER).write_text("")
    with pytest.raises(LmmsEgoplanError, match=f"{MARKER} is damaged"):
        write_results(out, a="4")


def test_a_full_volume_keeps_the_earlier_results(tmp_path):
    with volume_of(tmp_path / "volume", 200_000):
        out = tmp_path / "volume" / "out"
        write_results(out, a="1", b="1")
        with pytest.raises(LmmsEgoplanError, match=f"{out / 'b'}: cannot be written"):
            write_results(out, a="2", b="2" * 300_000)
        assert contents(out) == {"a": "1", "b": "1"}
        write_results(out, a="3")
        assert contents(out) == {"a": "3"}


def test_files_of_other_programs_are_deleted_if_they_have_not_changed(tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.chdir(tmp_path)

    def run():
        with output_folder(Path("out"), "command"):
            clear([out / "data", out / "log"])
            (out / "data").mkdir()
            (out / "data" / "a").write_text("")
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run()
    (out / "data" / "mine").write_text("mine")
    with pytest.raises(LmmsEgoplanError, match="data/mine"):
        run()
    assert contents(out) == {"data/a": "", "data/mine": "mine"}


def test_an_output_inside_another_has_its_own_marker(tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        with output_folder(out, "run"):
            write_results(out / "report", a="1")
            write_whole(out / "state", "1")
    assert contents(out) == {"report/a": "1", "state": "1"}
    write_results(out / "report", b="2")
    assert contents(out) == {"report/b": "2", "state": "1"}


def test_a_run_without_output_leaves_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt), output_folder(tmp_path / "new" / "out", "command"):
        raise KeyboardInterrupt
    (tmp_path / "empty").mkdir()
    with output_folder(tmp_path / "empty", "command"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_only_the_first_process_of_a_run_checks_the_folder(tmp_path, monkeypatch):
    (tmp_path / "mine").touch()
    monkeypatch.setenv("RANK", "1")
    with output_folder(tmp_path, "command"):
        pass
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LmmsEgoplanError, match="other files"), output_folder(tmp_path, "command"):
        pass


def test_another_process_cannot_use_the_folder(tmp_path):
    out = tmp_path / "out"
    with (
        output_folder(out, "command"),
        pytest.raises(LmmsEgoplanError, match="in use"),
        output_folder(out, "command"),
    ):
        pass


def test_a_file_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "new" / "out"
    also = out.with_name("also")
    for text, overwrite in (("1", False), ("2", True)):
        with output_file(out, overwrite=overwrite, also=[also]):
            write_whole(out, text)
    also.write_text("mine")
    for path in (out, tmp_path / "new" / "other"):
        with (
            pytest.raises(LmmsEgoplanError, match=f"--out {path}: .* --overwrite"),
            output_file(path, overwrite=False, also=[also]),
        ):
            pytest.fail("refused only after the start")
    with (
        pytest.raises(LmmsEgoplanError, match="is an input"),
        output_file(out, [out], overwrite=True),
    ):
        pytest.fail("refused only after the start")
    assert contents(tmp_path) == {"new/out": "2", "new/also": "mine"}


def test_a_file_that_appears_during_the_run_is_kept(tmp_path):
    out = tmp_path / "out"
    with output_file(out, overwrite=False):
        out.write_text("mine")
        with pytest.raises(LmmsEgoplanError, match=f"{out} has changed"):
            write_whole(out, "result")
    assert contents(tmp_path) == {"out": "mine"}
