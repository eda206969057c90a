"""``lmms-egoplan train actplan-bleurt`` on small files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import record, write_plans
from benchmarks.actplan.tiny_encoder import write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import classifier_path, load_classifier
from lmms_egoplan.cli import app
from lmms_egoplan.storage import prepared_splits

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    records = [record(number) for number in range(9)]
    plans, activities = write_plans(folder, records, ["train"] * 4 + ["val"] * 4 + [None])
    return [str(plans), str(activities)], str(write_encoder(folder / "encoder"))


def run(*arguments):
    return CliRunner().invoke(
        app, ["train", "actplan-bleurt", *map(str, arguments)], env={"COLUMNS": "120"}
    )


def test_finished_run_is_not_repeated(inputs, tmp_path):
    files, encoder = inputs
    out = tmp_path / "bleurt"
    settings = [
        "--epochs",
        1,
        "--learning-rate",
        1e-3,
        "--batch-size",
        3,
        "--max-length",
        40,
        "--seed",
        1,
    ]
    for _ in range(2):
        result = run(*files, "--encoder", encoder, "--out", out, *settings)
        assert result.exit_code == 0, result.output
        assert re.search(r"\b1\b.*filling_a_box_8\b", result.stderr)
        assert "Best epoch: 1 of 1. Accuracy on 4 training pairs: " in result.stdout
        rows = [re.sub(r"[^\w:.%-]+", " ", line).strip() for line in result.stdout.splitlines()]
        on_val = json.loads((out / "scores.json").read_text())["val"].values()
        for name, key in (
            ("this classifier: accuracy", "accuracy"),
            ("right if equal to a gold plan", "equal_to_gold"),
        ):
            assert f"{name} {' '.join(f'{scores[key]:.1%}' for scores in on_val)}" in rows
        assert "plans 4 4" in rows
        assert rows[-1].startswith("Written to")
    assert load_classifier(out).name == f"{Path(encoder).parent.name}/encoder (2 layers of 32)"


def test_a_classifier_is_trained_with_the_prepared_data_by_default(inputs, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)
    files, encoder = inputs
    existing = tmp_path / "actplan" / "classifier" / "config.json"
    existing.parent.mkdir(parents=True)
    existing.write_text("{}")
    assert "contains other files" in run(*files, "--encoder", encoder).output
    existing.unlink()
    result = run(*files, "--encoder", encoder, "--epochs", 1, "--max-length", 40)
    assert result.exit_code == 0, result.output
    assert classifier_path() == str(tmp_path / "actplan" / "classifier")
    assert prepared_splits() == []
    result = run(*files, "--encoder", encoder, "--epochs", 1, "--max-length", 40)
    assert "already finished" in result.output


def test_each_error_is_one_message(inputs, tmp_path):
    files, encoder = inputs
    none, out = str(tmp_path / "none"), tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    for arguments, facts in (
        ([*files, "--encoder", none, "--out", out], none),
        ([*files, "--encoder", encoder, "--out", tmp_path / "full"], f"--out {tmp_path / 'full'}"),
        ([files[0], none, "--encoder", encoder, "--out", out], none),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        assert f"lmms-egoplan: {facts}: " in result.stderr
    for option, value in (
        *(("--learning-rate", 0), ("--learning-rate", "nan"), ("--epochs", 0)),
        *(("--positives", "gold"), ("--shuffled", "scene")),
    ):
        assert run(*files, "--encoder", encoder, "--out", out, option, value).exit_code == 2
    result = run("p", "--encoder", "e", "--out", out)
    assert (result.exit_code, "'ACTIVITIES'" in result.stderr) == (2, True)
    assert not out.exists()


def test_help():
    assert "finetuning_data.jsonl" in run("--help").stdout


@pytest.mark.nightly
def test_the_command_imports_nothing_heavy():
    code = (
        "import sys\nfrom lmms_egoplan.cli import train\n"
        "from lmms_egoplan.training.bleurt import pairs\n"
        "heavy = {'torch', 'datasets', 'transformers', 'sklearn', 'sentence_transformers'} & "
        "{*sys.modules}\n"
        "sys.exit(','.join(heavy) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
