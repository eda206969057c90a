"""``lmms-egoplan train bleurt`` and ``lmms-egoplan evaluate bleurt`` on small files."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from actplan.published_plans import record, write_plans
from actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.cli import evaluate, train

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    records = [record(number) for number in range(9)]
    plans, activities = write_plans(folder, records, ["train"] * 4 + ["val"] * 4 + [None])
    return ["--plans", str(plans), "--activities", str(activities)], str(write_encoder(folder / "encoder"))


def run(app, *arguments):
    return CliRunner().invoke(app, ["bleurt", *map(str, arguments)])


def test_trains_and_evaluates(inputs, tmp_path):
    files, encoder = inputs
    out = tmp_path / "bleurt"
    settings = ["--epochs", 2, "--learning-rate", 1e-3, "--batch-size", 3, "--max-length", 40, "--seed", 1]
    for _ in range(2):
        result = run(train.app, *files, "--encoder", encoder, "--out", out, *settings)
        assert result.exit_code == 0, result.output
        assert "Left out: 1 instances of filling_a_box_8, which " in result.stderr
        summary, written = result.stdout.splitlines()[-2:]
        assert summary.startswith("Best epoch ")
        assert "Val: GPT-4V " in summary
        assert written == f"Written to {out}"
    result = run(evaluate.app, "--model", out, *files, "--split", "val")
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    rows = {row[0]: row[1:] for row in rows}
    assert rows["plans"] == ["4", "4"]
    assert rows["majority"] == ["100.0%", "100.0%"]
    assert rows["MCC"] == ["n/a", "n/a"]
    assert rows["pairs cut"] == ["0", "4"]
    assert rows["paper's BLEURT-base: accuracy"] == ["79.0%", "65.4%"]
    assert rows["paper's BLEURT: accuracy"] == ["81.5%", "75.3%"]
    assert rows["paper's BLEURT: MCC"] == ["0.367", "0.321"]
    assert "MCC n/a: all labels or all verdicts are the same" in result.stdout
    assert "Left out: 1 instances of filling_a_box_8, which " in result.stderr


def test_errors_are_one_message(inputs, tmp_path):
    files, encoder = inputs
    model = write_classifier(tmp_path / "model", encoder)
    none = str(tmp_path / "none")
    for app, arguments, message in (
        (evaluate.app, ["--model", none, *files, "--split", "val"], f"{none}: no folder with a trained classifier"),
        (evaluate.app, ["--model", model, *files, "--split", "test"], "no labelled plans of the split test in it"),
        (evaluate.app, ["--model", model, *files, "--plans", none, "--split", "val"], f"{none}: cannot be read"),
        (train.app, [*files, "--encoder", none, "--out", tmp_path / "out"], f"{none}: no BERT-type checkpoint can be"),
        (train.app, [*files, "--encoder", encoder, "--out", model], f"{model}: holds other files"),
        (train.app, [*files, "--activities", none, "--encoder", encoder, "--out", model], f"{none}: cannot be read"),
    ):
        result = run(app, *arguments)
        assert result.exit_code == 1, result.output
        assert f"lmms-egoplan: {message}" in result.stderr or message in result.stderr
        assert "Traceback" not in result.output
    for option, value in (("--learning-rate", 0), ("--learning-rate", "nan"), ("--epochs", 0), ("--split", "train")):
        app = evaluate.app if option == "--split" else train.app
        rest = ["--model", model] if app is evaluate.app else ["--encoder", encoder, "--out", tmp_path / "out"]
        assert run(app, *files, *rest, option, value).exit_code == 2
    assert not (tmp_path / "out").exists()


def test_help_loads_no_heavy_library():
    modules = "card, classifier, evaluation, fitting, model, pairs, recipe, run_folder, tokens, training"
    code = (
        f"from lmms_egoplan.benchmarks.actplan.bleurt import {modules}\n"
        "import sys\nfrom typer.testing import CliRunner\nfrom lmms_egoplan.cli import evaluate, train\n"
        "results = [CliRunner().invoke(each.app, ['bleurt', '--help']) for each in (train, evaluate)]\n"
        "heavy = {'torch', 'datasets', 'transformers', 'sklearn', 'sentence_transformers'} & set(sys.modules)\n"
        "sys.exit(','.join(heavy) or max(result.exit_code for result in results))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
