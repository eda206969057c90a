"""Run ``lmms-egoplan report`` on files in the harnesses' formats."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egoplan.synthetic import egoplan_replies
from lmms_egoplan.cli import app
from lmms_egoplan.files import UNFINISHED
from markers import list_results
from patience import wait_until
from report.prepared import prepare_data
from report.synthetic import write_run
from volumes import volume_of

COUNT = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_data(folder, actplan=COUNT)
    return folder


@pytest.fixture(autouse=True)
def environment(data, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    monkeypatch.setenv("COLUMNS", "200")


def write_runs(folder):
    """Write one run of each harness."""
    for seed, harness in enumerate(("lmms-eval", "lm-eval")):
        write_run(
            folder / harness,
            harness,
            f"org/Model-{seed}",
            {"actplan": actplan_answers(COUNT, 0.7, seed)},
        )
    return folder


@pytest.fixture
def folder(tmp_path):
    """Return a folder with one run of each harness."""
    return write_runs(tmp_path)


def report(*arguments):
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def page_of(out):
    return (out / "index.html").read_text(encoding="utf-8")


def strips_of(out):
    return {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in (out / "gallery/images").iterdir()
    }


STALE = ("tables/old.csv", "tables/old.md", "figures/old.svg", "figures/old.png")
MINE = (
    "tables/mine.txt",
    "tables/mine.csv",
    "tables/mine.md",
    "figures/mine.svg",
    "figures/mine.png",
)


@pytest.fixture(scope="module")
def twice(data, tmp_path_factory):
    """Return the folder, the outputs of a report on one run and then on both, and the first
    report's pictures.

    Before the second report, foreign files are added. The manifest lists one file of each kind as
    the first report's.
    """
    folder = write_runs(tmp_path_factory.mktemp("twice"))
    out = folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(data))
        patch.setenv("COLUMNS", "200")
        first = report(folder / "lm-eval", "--out", out)
        strips = strips_of(out)
        for name in (*STALE, *MINE):
            (out / name).touch()
        list_results(out, STALE)
        second = report(folder, "--out", out)
    return out, first, strips, second


def test_one_line_has_the_counts_and_one_the_path_of_the_page(twice):
    out, *_, result = twice
    assert result.exit_code == 0, result.output
    tables, figures = (
        len([*(out / name).glob("actplan_*")]) // 2 for name in ("tables", "figures")
    )
    head, scores = result.stdout.split("\n\n", 1)
    for fact in (
        "2 runs",
        "1 benchmark",
        f"{tables} tables",
        f"{figures} figures",
        f"{COUNT} questions",
    ):
        assert fact in head
    assert str(out / "index.html") in head
    assert "ActPlan-1K" in scores
    assert all(f"\n{name}  0." in scores for name in ("Model-0", "Model-1"))


def test_stale_files_of_an_earlier_report_are_deleted(twice):
    out, *_ = twice
    assert not [path.name for path in out.rglob("old.*")]
    assert all((out / name).exists() for name in MINE)


def test_a_second_report_reuses_the_pictures_of_the_first(twice):
    out, first, before, second = twice
    assert "pictures" in first.stderr
    assert len(before) == COUNT
    assert "pictures" not in second.stderr
    assert strips_of(out) == before
    assert all(name in page_of(out) for name in ("Model-0", "Model-1"))


def test_a_chosen_name_is_in_the_page(folder):
    """The name contains a tag, an equals sign, and characters that no page can show."""
    name = f"The <best> temp=0.5 a\x1bb\ud800={folder / 'lm-eval'}"
    result = report(folder, "--out", folder / "out", "--name", name)
    assert result.exit_code == 0, result.output
    page = page_of(folder / "out")
    assert "The &lt;best&gt; temp=0.5 a\u241bb\ufffd" in page
    assert "Model-0" in page
    assert '<bdi class="name">Model-1</bdi>' not in page


@pytest.mark.parametrize("name", ["name", "=.", "name=", " = ", " =.", "name=missing"])
def test_a_malformed_name_is_a_usage_error(folder, name):
    result = report(folder, "--out", folder / "out", "--name", name)
    assert result.exit_code == 2
    assert "NAME=FOLDER" in result.stderr
    assert "--name" in result.stderr
    assert not (folder / "out").exists()


def test_a_missing_sample_is_one_error(folder):
    (samples,) = folder.rglob("*samples_actplan_2*.jsonl")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))
    result = report(folder, "--out", folder / "out")
    assert result.exit_code == 1
    assert result.stdout == ""
    message = result.stderr[result.stderr.index("lmms-egoplan: ") :]
    assert message.count("lmms-egoplan: ") == 1
    assert all(fact in message for fact in (str(samples.parent), "Model-1", "actplan"))
    assert re.search(rf"\b{COUNT}\b.*\b{COUNT - 1}\b", message)
    assert "Traceback" not in result.output
    assert not (folder / "out").exists()


def test_truncated_results_are_reported_and_skipped(folder):
    (results,) = folder.rglob("*_results.json")
    results.write_text(results.read_text()[:-100])
    result = report(folder, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    assert all(fact in result.stdout for fact in ("1 run", "1 benchmark"))
    assert str(results) in result.stderr
    page = page_of(folder / "out")
    assert str(results) in page
    assert "Model-0" not in page.replace(str(results.parent), "")


def test_a_run_without_samples_is_in_the_tables_and_reported(folder):
    for samples in folder.rglob("*.jsonl"):
        samples.unlink()
    result = report(folder, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    assert all(name in result.stderr for name in ("Model-0", "Model-1", "actplan"))
    assert "0 questions" in result.stdout
    assert all(name in page_of(folder / "out") for name in ("Model-0", "Model-1"))


def write_settings(path, task, **settings):
    """Change a task's settings in a results file."""
    content = json.loads(path.read_text())
    content["configs"][task] |= settings
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("backend", "limit"), [("hf_vlm", "up to 32,768"), ("vllm", "32,768 or more")]
)
def test_the_protocol_of_letters_has_their_settings(tmp_path, backend, limit):
    path = write_run(
        tmp_path / "runs",
        "lmms-eval",
        "org/Model",
        {"egoplan_val_generate": egoplan_replies(30, 0.5, 2, unparsed=0.1)},
    )
    write_settings(
        path,
        "egoplan_val_generate",
        lmms_eval_specific_kwargs={
            "default": {"num_frames": 8},
            "media": "frames",
            "fps": 2,
            "max_frames": 256,
        },
        generation_kwargs={"max_new_tokens": 32768},
    )
    content = json.loads(path.read_text())
    content["config"]["model"] = backend
    path.write_text(json.dumps(content))
    result = report(tmp_path / "runs", "--out", tmp_path / "out", "--format", "md")
    assert result.exit_code == 0, result.output
    (protocol,) = (line for line in result.stdout.splitlines() if limit in line)
    assert re.search(r"egoplan_val_generate.*\b2\b.*\b256\b", protocol)
    stored = (tmp_path / "out" / "tables" / "results.md").read_text(encoding="utf-8")
    assert stored == result.stdout


def test_a_volume_that_becomes_full_is_one_error_that_names_the_file(folder):
    out = folder / "volume" / "out"
    with volume_of(folder / "volume", 32_768) as volume:
        result = report(folder / "lm-eval", "--out", out)
        files = [path for path in out.rglob("*") if path.is_file()]
    assert result.exit_code == 1
    assert not files
    message = result.stderr[result.stderr.index("lmms-egoplan: ") :]
    assert len(message.splitlines()) == 1
    assert message.startswith(f"lmms-egoplan: {out}/")
    assert f"the volume {volume} has" in message


@pytest.mark.whole
def test_a_killed_report_can_be_repeated_and_does_not_change_other_files(tmp_path):
    folder, out = write_runs(tmp_path), tmp_path / "report"
    command = [sys.executable, "-m", "lmms_egoplan", "report", folder, "--out", out]
    process = subprocess.Popen(command, start_new_session=True)
    wait_until(lambda: [*out.glob(f"{UNFINISHED}*/figures")] or process.poll() is not None)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "index.html").exists()
    (out / "figures").mkdir()
    (out / "figures" / "mine.png").write_text("mine")
    result = report(folder, "--out", out)
    assert result.exit_code == 0, result.output
    assert (out / "figures" / "mine.png").read_text() == "mine"
    assert not [*out.glob(f"{UNFINISHED}*")]
    assert (out / "index.html").exists()
    # A result that has changed is the user's.
    (out / "report.json").write_text("mine")
    page = (out / "index.html").read_bytes()
    result = report(folder, "--out", out)
    assert result.exit_code == 1
    assert str(out / "report.json") in result.stderr
    assert (out / "report.json").read_text() == "mine"
    assert (out / "index.html").read_bytes() == page
