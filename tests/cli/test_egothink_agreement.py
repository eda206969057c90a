"""``lmms-egoplan agreement`` on real files."""

import csv
import random
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.cli import app
from lmms_egoplan.report.egothink.answer_files import write_judged
from lmms_egoplan.stats.agreement import agreement, krippendorff_alpha
from report.egothink.judged_files import rows

LEVELS = (0.0, 0.5, 1.0)
NAMES = [dimension.name for dimension in DIMENSIONS]
SOME = NAMES[:4]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def judged_file(path, judge, ratings):
    write_judged(
        path,
        [
            [
                JudgedAnswer(
                    question,
                    "An answer.",
                    None,
                    False,
                    rating,
                    None,
                    judge,
                    "no" if rating is None else None,
                )
                for question, rating in ratings.items()
            ]
        ],
    )
    return path


def random_ratings(seed, per_dimension=12, names=NAMES):
    source = random.Random(seed)
    return {
        f"{name}/{number}": source.choice(LEVELS)
        for name in names
        for number in range(1, per_dimension + 1)
    }


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["agreement", "egothink", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def people_file(path, people):
    questions = next(iter(people.values()))
    lines = [
        f"{question},{','.join(f'{rated[question]:g}' for rated in people.values())}"
        for question in questions
    ]
    path.write_text("\n".join([f"id,{','.join(people)}", *lines]))
    return path


def overall(out):
    """Return the rows over all dimensions of a table of coefficients, by pair of raters."""
    with out.open(newline="") as file:
        return {
            (row["first"], row["second"]): row
            for row in csv.DictReader(file)
            if row["dimension"] == "overall"
        }


def test_two_judges_and_people(tmp_path):
    first, second, ann = (random_ratings(seed, names=SOME) for seed in range(3))
    first["existence/1"] = None
    del second["activity/3"]
    files = [
        judged_file(tmp_path / "a.jsonl", "gpt [x]", first),
        judged_file(tmp_path / "b.jsonl", "qwen", second),
    ]
    human = people_file(tmp_path / "human.csv", {"Ann": ann})
    out = tmp_path / "new" / "agreement.csv"
    result = run(*files, "--human", human, "--out", out)
    for line in (
        "Questions: 48. Rated by all 3 raters: 46; by two or more: 48",
        "gpt [x]: 0 not in the file, 1 without a rating",
        "qwen: 1 not in the file, 0 without a rating",
        "gpt [x] and qwen",
        "gpt [x] and Ann",
        "qwen and Ann",
    ):
        assert line in result.stdout

    with out.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == [
        "first", "second", "dimension", "questions", "first_mean", "second_mean",
        "pearson", "pearson_low", "pearson_high",
        "kappa_unweighted", "kappa_unweighted_low", "kappa_unweighted_high",
        "kappa_linear", "kappa_linear_low", "kappa_linear_high",
        "krippendorff_alpha", "krippendorff_alpha_low", "krippendorff_alpha_high",
        "undefined_resamples",
    ]  # fmt: skip
    together = [row for row in table if not row["second"]]
    table = [row for row in table if row["second"]]
    assert [row["dimension"] for row in table[::3]] == [*SOME, "overall"]
    assert {row["first"] for row in together} == {"gpt [x], qwen, Ann"}
    raters = {"gpt [x]": first, "qwen": second, "Ann": ann}
    # Each pair covers the questions that both rated.
    overall = {
        (row["first"], row["second"]): row["questions"]
        for row in table
        if row["dimension"] == "overall"
    }
    assert overall == {("gpt [x]", "qwen"): "46", ("gpt [x]", "Ann"): "47", ("qwen", "Ann"): "47"}
    for row in table:
        both = [
            q
            for q in ann
            if raters[row["first"]].get(q) is not None and raters[row["second"]].get(q) is not None
        ]
        questions = [q for q in both if row["dimension"] in ("overall", q.split("/")[0])]
        expected = agreement(
            *([raters[row[side]][q] for q in questions] for side in ("first", "second")), LEVELS
        )
        assert int(row["questions"]) == len(questions)
        for side in ("first", "second"):
            mean = sum(raters[row[side]][question] for question in questions) / len(questions)
            assert float(row[f"{side}_mean"]) == pytest.approx(mean)
        for name in ("pearson", "kappa_unweighted", "kappa_linear"):
            estimate = getattr(expected, name)
            numbers = tuple(float(row[column]) for column in (name, f"{name}_low", f"{name}_high"))
            assert numbers == (estimate.value, estimate.low, estimate.high)
    for row in together:
        questions = [q for q in ann if row["dimension"] in ("overall", q.split("/")[0])]
        units = [
            [rated[q] for rated in raters.values() if rated.get(q) is not None] for q in questions
        ]
        expected = krippendorff_alpha(units, LEVELS, is_ordered=True)
        assert (float(row["krippendorff_alpha"]), int(row["questions"])) == (
            expected.value,
            len(questions),
        )
    means, pair, *_ = (row for row in rows(result.stdout) if row[0] == "overall")
    all_ratings = [
        [rating for rating in rated.values() if rating is not None] for rated in raters.values()
    ]
    assert means[1:] == [
        f"{100 * sum(ratings) / len(ratings):.1f} ({len(ratings)})" for ratings in all_ratings
    ]
    assert pair[1] == "46"
    assert pair[2].startswith(
        f"{float(table[-3]['pearson']):.2f} [{float(table[-3]['pearson_low']):.2f}, "
    )


def test_a_rater_with_few_ratings_does_not_affect_other_pairs(tmp_path):
    """Two judges rated all answers, a person only some of them."""
    first, second = (random_ratings(seed, 50, ["existence", "activity"]) for seed in range(2))
    ann = dict(list(random_ratings(2, 50, ["existence"]).items())[:9])
    files = [
        judged_file(tmp_path / f"{name}.jsonl", name, r)
        for name, r in (("a", first), ("b", second))
    ]
    human = people_file(tmp_path / "human.csv", {"Ann": ann})
    out = tmp_path / "agreement.csv"
    result = run(*files, "--human", human, "--out", out)
    assert "Rated by all 3 raters: 9; by two or more: 100" in result.stdout
    table = overall(out)
    assert table["a", "b"]["questions"] == table["a, b, Ann", ""]["questions"] == "100"
    expected = agreement(list(first.values()), list(second.values()), LEVELS)
    assert float(table["a", "b"]["pearson"]) == expected.pearson.value
    # Nine questions are too few.
    assert table["a", "Ann"]["questions"] == "9"
    assert {
        table["a", "Ann"][name] for name in ("pearson", "kappa_unweighted", "kappa_linear")
    } == {"n/a"}
    assert "fewer than 10 questions" in result.stdout


@pytest.mark.filterwarnings("error")
def test_constant_ratings_have_no_coefficient(tmp_path, recwarn):
    constant = {f"existence/{number}": 1.0 for number in range(1, 11)}
    varied = constant | {"existence/1": 0.0}
    files = [
        judged_file(tmp_path / f"{name}.jsonl", name, r)
        for name, r in (("a", constant), ("b", varied))
    ]
    out = tmp_path / "agreement.csv"
    result = run(*files, "--out", out)
    assert rows(result.stdout) == [
        *([name, "100.0 (10)", "90.0 (10)"] for name in ("existence", "overall")),
        *([name, "10", "n/a", "n/a", "n/a"] for name in ("existence", "overall")),
    ]
    nothing = ",".join(["n/a"] * 9)
    lines = [f"a,b,{name},10,1.0,0.9,{nothing},,,,0" for name in ("existence", "overall")]
    assert out.read_text().splitlines()[1:] == lines
    assert not recwarn.list


@pytest.mark.filterwarnings("error")
def test_excluded_resamples_are_counted(tmp_path):
    ratings = {f"existence/{number}": float(number == 1) for number in range(1, 11)}
    result = run(*(judged_file(tmp_path / f"{name}.jsonl", name, ratings) for name in "ab"))
    (*_, row, _) = rows(result.stdout)
    assert row[1:] == ["10*", *["1.00 [1.00, 1.00]"] * 3]
    excluded = re.search(r"\* .* resamples .* up to (\d+) of 2000", result.stdout)
    assert int(excluded[1]) == pytest.approx(2000 * 0.9**10, abs=80)


def test_people_alone(tmp_path):
    human = tmp_path / "human.csv"
    human.write_text("id,Ann,Bob\nexistence/1,0,0\nexistence/2,1,1\nexistence/3,,1\n")
    result = run("--human", human)
    assert "Questions: 3. Rated by all 2 raters: 2; by two or more: 2" in result.stdout
    assert "fewer than 10 questions" in result.stdout


def test_people_are_combined_like_in_the_paper(tmp_path):
    """Table 10 prints the mean of three people, and Table 9 a judge's correlation with it."""
    people = {
        name: random_ratings(seed, names=["existence"])
        for seed, name in enumerate(("Ann", "Bob", "Cem"))
    }
    judge = random_ratings(7, names=["existence"])
    out = tmp_path / "agreement.csv"
    human = people_file(tmp_path / "human.csv", people)
    run(judged_file(tmp_path / "a.jsonl", "gpt", judge), "--human", human, "--out", out)
    table = overall(out)
    mean = [sum(rated[question] for rated in people.values()) / 3 for question in judge]
    row = table["gpt", "mean of 3 people"]
    assert float(row["second_mean"]) == pytest.approx(sum(mean) / 12)
    assert float(row["pearson"]) == pytest.approx(
        agreement(list(judge.values()), mean, None).pearson.value
    )
    assert row["kappa_unweighted"] == row["kappa_linear"] == "n/a"
    assert float(table["Ann", "Bob"]["kappa_unweighted"]) <= 1
    assert ("mean of 3 people", "Ann") not in table
    units = list(zip(*(rated.values() for rated in people.values()), strict=True))
    assert (
        float(table["Ann, Bob, Cem", ""]["krippendorff_alpha"])
        == krippendorff_alpha(units, LEVELS, is_ordered=True).value
    )
    assert float(table["gpt, Ann, Bob, Cem", ""]["krippendorff_alpha"]) <= 1


def test_a_column_of_means_has_no_kappa_and_is_not_combined(tmp_path):
    people = {
        name: random_ratings(seed, names=["existence"]) for seed, name in enumerate(("Ann", "Bob"))
    }
    people["Panel"] = people["Ann"] | {"existence/4": 0.833}
    out = tmp_path / "agreement.csv"
    result = run("--human", people_file(tmp_path / "human.csv", people), "--out", out)
    assert "Panel: 1 ratings are not 0, 0.5 or 1, first 0.833 for existence/4; " in result.stdout
    table = overall(out)
    assert list(table) == [
        ("mean of 2 people", "Panel"),
        ("Ann", "Bob"),
        ("Ann", "Panel"),
        ("Bob", "Panel"),
    ]
    assert table["Ann", "Panel"]["kappa_linear"] == "n/a"
    assert float(table["Ann", "Panel"]["pearson"]) > 0.9


def test_tables_of_coefficients_fit_80_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    first, other = random_ratings(0), random_ratings(1)
    second = {
        question: other[question] if number % 4 == 0 else first[question]
        for number, question in enumerate(first)
    }
    files = [
        judged_file(tmp_path / f"{n}.jsonl", f"judge-{n}", rated)
        for n, rated in enumerate((first, second))
    ]
    result = run(*files)
    coefficients = [row for row in rows(result.stdout) if len(row) == 5]
    assert [row[0] for row in coefficients] == [*NAMES, "overall"]
    assert coefficients[-1][1] == "144"
    assert all("]" in row[2] for row in coefficients)


def test_raters_without_common_questions(tmp_path):
    files = [
        judged_file(tmp_path / f"{name}.jsonl", name, {f"{name}/1": 1.0, f"{name}/2": 0.0})
        for name in ("existence", "activity")
    ]
    out = tmp_path / "agreement.csv"
    result = run(*files, "--out", out, code=1)
    assert "no question has two ratings" in result.stderr
    assert not out.exists()


def test_usage_errors(tmp_path):
    file = judged_file(tmp_path / "a.jsonl", "a", random_ratings(0))
    for arguments, message in (((), "got 0"), ((file,), "got 1"), ((file, file), "duplicate file")):
        result = run(*arguments, code=2)
        assert message in result.stderr


def test_malformed_human_ratings_have_one_message(tmp_path):
    human = tmp_path / "human.csv"
    human.write_text("id,Ann\nexistence/1,2\n")
    result = run(
        judged_file(tmp_path / "a.jsonl", "a", random_ratings(0)), "--human", human, code=1
    )
    assert result.stderr == (
        f"lmms-egoplan: {human}, line 2, column Ann: expected a number from 0 to 1 or an "
        "empty cell, got '2'\n"
    )


def test_help_has_an_example():
    result = run("--help")
    assert "Example:" in result.output


def test_help_imports_nothing_heavy():
    program = (
        "import sys, lmms_egoplan.cli, lmms_egoplan.stats.agreement, "
        "lmms_egoplan.report.egothink.answer_files\n"
        "heavy = {'torch', 'datasets', 'openai', 'scipy', 'sklearn', 'lmms_eval'}\n"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names_that_look_like_formulas_are_escaped_and_read_back(tmp_path):
    ratings = random_ratings(5, names=["existence"])
    judge = judged_file(tmp_path / "a.jsonl", "=HYPERLINK(A1) \ud83d", ratings)
    human = people_file(tmp_path / "human.csv", {"'+Ann": ratings, "@Bob": ratings})
    out = tmp_path / "agreement.csv"
    result = run(judge, "--human", human, "--out", out)
    assert "+Ann" in result.output
    assert "'+Ann" not in result.output
    with out.open(newline="") as lines:
        names = {
            row[column]
            for row in csv.DictReader(lines)
            if row["second"]
            for column in ("first", "second")
        }
    assert names == {"'=HYPERLINK(A1) ?", "mean of 2 people", "'+Ann", "'@Bob"}


def test_means_of_many_raters_fit_80_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    existence = ["existence"]
    people = {
        f"annotator-number-{number}": random_ratings(number, names=existence) for number in range(5)
    }
    judge = judged_file(
        tmp_path / "a.jsonl", "gpt-4o-2024-11-20", random_ratings(20, names=existence)
    )
    result = run(judge, "--human", people_file(tmp_path / "people.csv", people))
    means = result.stdout[: result.stdout.index(" and ")]
    assert "…" not in means
    cells = [cell for row in rows(means) if row[0] == "overall" for cell in row[1:]]
    assert len(cells) == 7  # the judge, the combined people and five people
    for rated in people.values():
        assert f"{100 * sum(rated.values()) / len(rated):.1f} ({len(rated)})" in cells
