"""``lmms-egoplan train bleurt`` and ``lmms-egoplan evaluate bleurt`` on small files."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import record, write_plans
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.cli import app

pytestmark = pytest.mark.filterwarnings("ignore")

TRAIN, EVALUATE, SCORE = ("train", "bleurt"), ("evaluate", "bleurt"), ("score", "actplan")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    records = [record(number) for number in range(9)]
    plans, activities = write_plans(folder, records, ["train"] * 4 + ["val"] * 4 + [None])
    return [str(plans), str(activities)], str(write_encoder(folder / "encoder"))


def run(command, *arguments):
    return CliRunner().invoke(app, [*command, *map(str, arguments)])


def test_trains_and_evaluates(inputs, tmp_path):
    files, encoder = inputs
    out = tmp_path / "bleurt"
    settings = ["--epochs", 2, "--learning-rate", 1e-3, "--batch-size", 3, "--max-length", 40, "--seed", 1]
    for _ in range(2):
        result = run(TRAIN, *files, "--encoder", encoder, "--out", out, *settings)
        assert result.exit_code == 0, result.output
        assert "Left out: 1 instances of filling_a_box_8, which " in result.stderr
        summary, written = result.stdout.splitlines()[-2:]
        assert summary.startswith("Best epoch ")
        assert "Val: GPT-4V " in summary
        assert written == f"Written to {out}"
    result = run(EVALUATE, out, *files, "--split", "val")
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
    assert result.stdout.splitlines()[-1] == (
        "Trained with positive pairs: two correct plans in any order; shuffled gold plans: of the same activity"
    )
    assert "MCC n/a: all labels or all verdicts are the same" in result.stdout
    assert "Left out: 1 instances of filling_a_box_8, which " in result.stderr


def test_errors_are_one_message(inputs, tmp_path):
    files, encoder = inputs
    model = write_classifier(tmp_path / "model", encoder)
    none = str(tmp_path / "none")
    for command, arguments, message in (
        (EVALUATE, [none, *files, "--split", "val"], f"{none}: no folder with a trained classifier"),
        (EVALUATE, [model, *files, "--split", "test"], "no labelled plans of the split test in it"),
        (EVALUATE, [model, none, files[1], "--split", "val"], f"{none}: cannot be read"),
        (TRAIN, [*files, "--encoder", none, "--out", tmp_path / "out"], f"{none}: no BERT-type checkpoint can be"),
        (TRAIN, [*files, "--encoder", encoder, "--out", model], f"--out {model}: it holds other files"),
        (TRAIN, [files[0], none, "--encoder", encoder, "--out", tmp_path / "out"], f"{none}: cannot be read"),
    ):
        result = run(command, *arguments)
        assert result.exit_code == 1, result.output
        assert f"lmms-egoplan: {message}" in result.stderr or message in result.stderr
        assert "Traceback" not in result.output
    for option, value in (
        *(("--learning-rate", 0), ("--learning-rate", "nan"), ("--epochs", 0), ("--split", "train")),
        *(("--positives", "gold"), ("--shuffled", "scene")),
    ):
        command = EVALUATE if option == "--split" else TRAIN
        inputs = [model, *files] if command is EVALUATE else [*files, "--encoder", encoder, "--out", tmp_path / "out"]
        assert run(command, *inputs, option, value).exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        (EVALUATE, ["m"], "Missing argument 'PLANS'"),
        (EVALUATE, [], "Missing argument 'MODEL'"),
        (TRAIN, ["p"], "Missing argument 'ACTIVITIES'"),
        (SCORE, [], "Missing argument 'PLANS'"),
        (SCORE, ["p", "q"], r"unexpected extra argument\S* \(q\)"),
    ],
)
def test_an_input_is_given_once(tmp_path, command, arguments, told):
    required = {
        EVALUATE: ["--split", "val"],
        TRAIN: ["--encoder", "e", "--out", tmp_path / "out"],
        SCORE: ["--out", tmp_path / "out"],
    }
    result = run(command, *required[command], *arguments)
    assert result.exit_code == 2
    assert re.search(told, " ".join(result.stderr.replace("│", " ").split()))
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [EVALUATE, TRAIN, SCORE])
def test_help_names_the_authors_file_and_no_earlier_option(command):
    text = run(command, "--help").stdout
    assert "finetuning_data.jsonl" in text
    assert not [name for name in ("--plans", "--activities", "--model", "plans_train_val") if name in text]


def test_help_loads_no_heavy_library():
    modules = "classifier, evaluation, model, pairs, recipe, training"
    code = (
        f"from lmms_egoplan.benchmarks.actplan.bleurt import {modules}\n"
        "import sys\nfrom typer.testing import CliRunner\nfrom lmms_egoplan.cli import app\n"
        "results = [CliRunner().invoke(app, [group, 'bleurt', '--help']) for group in ('train', 'evaluate')]\n"
        "heavy = {'torch', 'datasets', 'transformers', 'sklearn', 'sentence_transformers'} & set(sys.modules)\n"
        "sys.exit(','.join(heavy) or max(result.exit_code for result in results))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
