"""``lmms-egoplan evaluate actplan-bleurt`` on small files."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import record, write_plans
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.cli import app

EVALUATE, SCORE = ("evaluate", "actplan-bleurt"), ("score", "actplan")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Plans and activities, and a classifier of short pairs."""
    folder = tmp_path_factory.mktemp("inputs")
    plans, activities = write_plans(folder, [record(number) for number in range(5)], ["val"] * 4 + [None])
    model = write_classifier(folder / "model", write_encoder(folder / "encoder"), max_length=64)
    return [str(plans), str(activities)], str(model)


def run(command, *arguments):
    return CliRunner().invoke(app, [*command, *map(str, arguments)])


def test_verdicts_stand_beside_table_5(inputs):
    files, model = inputs
    result = run(EVALUATE, model, *files, "--split", "val")
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
        "Trained with positive pairs: two correct plans in any order; shuffled gold plans: of the same instance"
    )
    assert re.search("1 .*filling_a_box_4", result.stderr)


def test_errors_are_one_message(inputs, tmp_path):
    files, model = inputs
    none = str(tmp_path / "none")
    for arguments, facts in (
        ([none, *files, "--split", "val"], f"{none}: "),
        ([model, *files, "--split", "test"], f"{files[0]}: .*test.*val"),
        ([model, none, files[1], "--split", "val"], f"{none}: "),
    ):
        result = run(EVALUATE, *arguments)
        assert result.exit_code == 1, result.output
        assert re.match(f"lmms-egoplan: {facts}", result.stderr)
    assert run(EVALUATE, model, *files, "--split", "train").exit_code == 2


@pytest.mark.parametrize(
    ("command", "arguments", "facts"),
    [(EVALUATE, ["m"], "'PLANS'"), (EVALUATE, [], "'MODEL'"), (SCORE, [], "'PLANS'"), (SCORE, ["p", "q"], r"\(q\)")],
)
def test_an_input_is_given_once(tmp_path, command, arguments, facts):
    required = {EVALUATE: ["--split", "val"], SCORE: ["--out", tmp_path / "out"]}
    result = run(command, *required[command], *arguments)
    assert result.exit_code == 2
    assert re.search(facts, " ".join(result.stderr.replace("│", " ").split()))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [EVALUATE, SCORE])
def test_help_names_the_authors_file(command):
    assert "finetuning_data.jsonl" in run(command, "--help").stdout


def test_commands_load_no_heavy_library():
    code = (
        "import sys\nfrom lmms_egoplan.benchmarks.actplan import commands\n"
        "heavy = {'torch', 'datasets', 'transformers', 'sklearn', 'sentence_transformers'} & {*sys.modules}\n"
        "sys.exit(','.join(heavy) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
