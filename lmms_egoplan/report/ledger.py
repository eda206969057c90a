"""Read the ledger of published scores, mark its rows, and compare them with runs.

``ledger.csv`` has one row per printed number. ``ledger.yaml`` describes the benchmarks, and lists
other spellings of models' names.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import base_version
from lmms_egoplan.paths import module_rows, module_yaml
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.scores import ScoredTask
from lmms_egoplan.report.tables import Column, Row, Table
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.task_files import package_versions
from lmms_egoplan.text import counted, join_list
from lmms_egoplan.validation import quoted

LEDGER = Path(__file__).with_suffix(".csv")

_FACTS = module_yaml(__file__)
_ALIASES: Mapping[str, str] = _FACTS["aliases"]
_BENCHMARKS: Mapping[str, Mapping[str, Any]] = _FACTS["benchmarks"]

_SEPARATORS = re.compile(r"[^a-z0-9]")
_OMITTED_END = re.compile(
    r"""
    (?<=\d[bm])                 # after the size, such as 7b
    (instruct|chat|it|hf)+$     # an end that other sources may omit
    """,
    re.VERBOSE,
)


def checkpoint_names(model: str) -> tuple[str, str]:
    """Return a model's name without folders and separators.

    Also return the same without an end such as ``Instruct``.

    >>> checkpoint_names("org/Model-2.5-7B-Instruct")
    ('model257binstruct', 'model257b')
    """
    last_part = model.rstrip("/").rpartition("/")[2]
    name = _SEPARATORS.sub("", last_part.lower())
    name = _ALIASES.get(name, name)
    return name, _OMITTED_END.sub("", name)


@dataclass(frozen=True)
class PublishedScore:
    """A row of the ledger.

    cells: texts by column, as in the file; "" for unknown values.
    group: benchmark, subset, and the model's name without an end such as ``Instruct``; see
    `checkpoint_names`.
    name: the model's name in full.
    value: the score in per cent.
    questions: number of questions of the subset, or as in the row; 0 if unknown.
    fields: how the score was obtained; "" for unknown fields.
    marks: ``copy``, ``not whole``, ``below chance`` and ``quoted``, as far as they apply.
    """

    cells: Mapping[str, str]
    group: tuple[str, str, str]
    name: str
    value: Fraction
    questions: int
    fields: Mapping[str, str]
    marks: tuple[str, ...] = ()


@cache
def read_ledger(path: Path = LEDGER) -> tuple[PublishedScore, ...]:
    """Read and check the ledger, by benchmark and subset, best scores first.

    Raises:
        LmmsEgoplanError: a row is incomplete, a cell does not have its column's form, or the
            benchmark, the subset or the metric is unknown.
    """
    scores = []
    for line, cells in enumerate(module_rows(str(path)), 2):
        where = f"{path}, line {line}"
        _check_cells(where, cells)
        scores.append(_score_of_row(where, cells))
    order = []
    for benchmark, facts in _BENCHMARKS.items():
        for subset in facts["subsets"]:
            order.append((benchmark, subset))
    scores.sort(key=lambda score: (order.index(score.group[:2]), -score.value))
    return tuple(replace(score, marks=_marks(score, scores)) for score in scores)


_ANY_TEXT = re.compile(r".*")
_NOT_EMPTY = re.compile(r".+")
_WORDS = re.compile(r".*\w.*")
_MODEL_SIZE = re.compile(r"(A?\d+(\.\d+)?[BM])?")
_PER_CENT = re.compile(r"(100|\d{1,2})(\.\d+)?")
_SOURCE_KIND = re.compile(r"paper|card|repository|note quoting")
_MONTH = re.compile(r"(20\d\d-(0[1-9]|1[0-2]))?")
_QUESTIONS = re.compile(r"([1-9]\d*)?")
_READ_IN = re.compile(r"original|quoted")

# The ledger's columns in order: the form of the complete cell, and the expected value in words.
_COLUMNS = {
    "benchmark": (_NOT_EMPTY, "the benchmark's title"),
    "split_or_subset": (_NOT_EMPTY, "the split or subset"),
    "metric": (_NOT_EMPTY, "the metric"),
    "model": (_WORDS, "the model's name, as in the source"),
    "model_size": (_MODEL_SIZE, "a number of parameters such as 7B, or nothing"),
    "score": (_PER_CENT, "a number from 0 to 100 with the printed digits"),
    "source": (_WORDS, "the short name of the work that prints the number"),
    "source_kind": (_SOURCE_KIND, "paper, card, repository or note quoting"),
    "reference": (_WORDS, "an arXiv number or a repository"),
    "date": (_MONTH, "a month such as 2025-07, or nothing"),
    "table": (_ANY_TEXT, "the table in the source"),
    "prompt": (_ANY_TEXT, "the prompt's short name"),
    "frames": (_ANY_TEXT, "frames or frame rate"),
    "thinking": (_ANY_TEXT, "on, off or a level"),
    "parser": (_ANY_TEXT, "the parser's short name"),
    "questions": (_QUESTIONS, "a number of questions, or nothing"),
    "judge": (_ANY_TEXT, "the judge model"),
    "read_in": (_READ_IN, "original or quoted"),
    "note": (_ANY_TEXT, "a note in one line"),
}


def _check_cells(where: str, cells: Mapping[str, str]) -> None:
    """Check the form of a row's cells. `csv` uses None for cells that are missing or too many."""
    has_too_many = None in list(cells)
    for column, (form, expected) in _COLUMNS.items():
        cell = cells.get(column)
        if has_too_many or cell is None or not form.fullmatch(cell):
            problem = f"expected {expected}, found {quoted(cell)}"
            raise LmmsEgoplanError(
                f"{where}, {column}: {problem}; correct it, and quote texts that contain commas"
            )


def _score_of_row(where: str, cells: Mapping[str, str]) -> PublishedScore:
    benchmark = _benchmark_of_row(where, cells)
    facts = _BENCHMARKS[benchmark]
    subset = cells["split_or_subset"]
    questions = facts["subsets"][subset] or int(cells["questions"] or 0)
    stated = dict(cells)
    if cells["questions"]:
        stated["questions"] = str(questions)
    name, short_name = checkpoint_names(cells["model"])
    return PublishedScore(
        cells=cells,
        group=(benchmark, subset, short_name),
        name=name,
        value=Fraction(cells["score"]),
        questions=questions,
        fields={field: stated[field] for field in facts["fields"]},
    )


def _benchmark_of_row(where: str, cells: Mapping[str, str]) -> str:
    title = cells["benchmark"]
    subset = cells["split_or_subset"]
    metric = cells["metric"]
    for benchmark, facts in _BENCHMARKS.items():
        has_names = title == facts["title"] and metric == facts["metric"]
        if has_names and subset in facts["subsets"]:
            return benchmark
    names = f"benchmark {title!r}, subset {subset!r} or metric {metric!r}"
    raise LmmsEgoplanError(
        f"{where}: unknown {names}; correct the row, or add the name to ledger.yaml"
    )


def _marks(score: PublishedScore, scores: Iterable[PublishedScore]) -> tuple[str, ...]:
    chance = _BENCHMARKS[score.group[0]]["chance"]
    marks = []
    if _is_copy(score, scores):
        marks.append("copy")
    if not _is_whole(score):
        marks.append("not whole")
    if score.value < chance:
        marks.append("below chance")
    if score.cells["read_in"] == "quoted":
        marks.append("quoted")
    return tuple(marks)


_COPY_NOTE = re.compile(
    r"""
    same[ ]value[ ]as
    | \bcopied
    | \bequal[ ]to[ ]
    | taken[ ]from[ ]other[ ]reports
    | own[ ]values?\b
    """,
    re.VERBOSE,
)


def _is_copy(score: PublishedScore, scores: Iterable[PublishedScore]) -> bool:
    """Return true if the note says so, or if an earlier source has the same score."""
    if _COPY_NOTE.search(score.cells["note"]):
        return True
    earlier = [*_paper_scores(score.group)]
    date = score.cells["date"]
    for other in scores:
        if other.group == score.group and "" < other.cells["date"] < date:
            earlier.append(other.value)
    half_digit = _half_digit(score)
    return any(abs(value - score.value) <= half_digit for value in earlier)


def _paper_scores(group: tuple[str, str, str]) -> Iterator[Fraction]:
    """Yield a model's scores in the paper of the benchmark."""
    benchmark, subset, model = group
    for table, column in _BENCHMARKS[benchmark]["paper"].get(subset, []):
        for name, value in load_table(benchmark, table).scores(column):
            _, short_name = checkpoint_names(name)
            if short_name == model:
                yield Fraction(str(value))


def _is_whole(score: PublishedScore) -> bool:
    """Return true if a whole number of right answers gives this score.

    An answer of several levels counts as several steps. Without a number of questions, every score
    is possible.
    """
    steps = score.questions * _BENCHMARKS[score.group[0]]["levels"]
    if not steps:
        return True
    nearest = Fraction(100 * round(score.value * steps / 100), steps)
    return abs(nearest - score.value) <= _half_digit(score)


def _half_digit(score: PublishedScore) -> Fraction:
    """Return half a unit of the last printed digit: the largest error of rounding."""
    decimals = score.cells["score"].partition(".")[2]
    return Fraction(1, 2 * 10 ** len(decimals))


def scores_of_model(scores: Sequence[PublishedScore], model: str) -> list[PublishedScore]:
    """Return the scores of all models whose names contain a name.

    Case and separators do not matter.

    Raises:
        LmmsEgoplanError: there is none. The message contains the closest names.
    """
    part, short_name = checkpoint_names(model)
    matching = []
    if part:
        matching = [score for score in scores if part in score.name or score.name == short_name]
    if not matching:
        models = {score.name: score.cells["model"] for score in scores}
        closest = get_close_matches(part, models, n=3, cutoff=0)
        close = join_list([models[name] for name in closest])
        raise LmmsEgoplanError(
            f"--model {model}: no published score of this model; the closest names are {close}"
        )
    return matching


def spreads(scores: Iterable[PublishedScore]) -> Iterator[str]:
    """Describe the spread of each model and subset with several scores that are not copies."""
    groups: dict[tuple[str, str, str], list[PublishedScore]] = {}
    for score in scores:
        if "copy" not in score.marks:
            groups.setdefault(score.group, []).append(score)
    for group in groups.values():
        if len(group) > 1:
            yield _spread(group)


def _spread(group: Sequence[PublishedScore]) -> str:
    """Describe the spread of several scores of one model and subset."""
    by_value = sorted(group, key=lambda score: score.value)
    low = by_value[0]
    high = by_value[-1]
    spellings = Counter(score.cells["model"] for score in group)
    model, _ = spellings.most_common(1)[0]
    _, subset, _ = low.group
    subject = f"{model}, {low.cells['benchmark']}, {subset}"
    points = float(high.value - low.value)
    return (
        f"Spread of {subject}: {low.cells['score']} to {high.cells['score']}, {points:g} points, "
        f"{len(group)} scores without copies."
    )


def ledger_table(scores: Sequence[PublishedScore], *, with_spread: bool) -> Table:
    """Make a table of published scores. The last note has the counts."""
    columns = (
        Column("benchmark", "Benchmark"),
        Column("subset", "Subset"),
        Column("model", "Model"),
        Column("score", "Score"),
        Column("source", "Source"),
        Column("date", "Date"),
        Column("marks", "Marks"),
        Column("protocol", "Protocol"),
        Column("reference", "Reference"),
    )
    rows = []
    for score in scores:
        cells = (
            score.cells["benchmark"],
            score.group[1],
            score.cells["model"],
            score.cells["score"],
            score.cells["source"],
            score.cells["date"] or "unknown",
            ", ".join(score.marks),
            _protocol(score),
            score.cells["reference"],
        )
        rows.append(Row(cells))
    notes: list[str] = []
    if with_spread:
        notes.extend(spreads(scores))
    notes.append(_counts(scores))
    return Table("ledger", "Published scores", columns, tuple(rows), notes=tuple(notes))


def _protocol(score: PublishedScore) -> str:
    """Return how a score was obtained, in words."""
    known = "; ".join(f"{name}: {text}" for name, text in score.fields.items() if text)
    unknown = ", ".join(name for name, text in score.fields.items() if not text)
    if not known:
        return "unknown"
    if not unknown:
        return known
    return f"{known}; unknown: {unknown}"


def _counts(scores: Sequence[PublishedScore]) -> str:
    """Count scores, sources and marks in one sentence."""
    sources = {score.cells["source"] for score in scores}
    counts = [counted(len(scores), "scores"), counted(len(sources), "sources")]
    marks: Counter[str] = Counter()
    for score in scores:
        marks.update(score.marks)
    for mark, count in marks.items():
        counts.append(f"{count} marked {mark}")
    return f"{', '.join(counts)}."


def runs_and_ledger(
    benchmark: str,
    tasks: Iterable[tuple[ScoredTask, Mapping[str, Mean]]],
    fields: Mapping[str, Mapping[str, str]],
) -> Table | None:
    """Put runs next to the published scores with the name of their checkpoint.

    None if there are none.

    A run with an adapter or delta weights is skipped, since it has other weights than the
    checkpoint. The fields of a task are unknown in other versions of the task and with a system
    instruction or a prompt among the model arguments.

    Args:
        benchmark: name of the benchmark.
        tasks: tasks of runs, each with its scores by the ledger's subsets.
        fields: fields that each task's current version determines, by the ledger's names.
    """
    rows = []
    listed = {}
    for task, means in tasks:
        fields_of_run = _fields_of_run(task, fields)
        for score in _scores_of_checkpoint(benchmark, task):
            mean = means.get(score.group[1], Mean())
            if mean.value is not None:
                listed[id(score)] = score
                cells = _cells_of_run(task, score, mean.value)
                known = fields_of_run | {"questions": str(mean.questions or "")}
                remarks = _remarks_on_run(task, score, known)
                rows.append(Row((*cells, *remarks), is_ours=True))
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("subset", "Subset"),
        Column("source", "Source"),
        Column("date", "Date"),
        Column("published", "Published"),
        Column("score", "Run's score", decimals=2),
        Column("difference", "Run minus published", decimals=2),
        Column(
            "different",
            "Conditions that differ",
            note="Conditions that differ: what the source and the run state differently.",
        ),
        Column(
            "same",
            "Same conditions",
            note="Same conditions: what both state alike.",
            is_condition=True,
        ),
        Column(
            "unknown",
            "Not stated",
            note="Not stated: what at least one of them does not state.",
            is_condition=True,
        ),
        Column(
            "marks",
            "Marks",
            note=(
                "Marks: copy, the number is in an earlier source; not whole, no whole number of "
                "right answers gives this score; below chance, the score is lower than that of "
                "random answers; quoted, the number was read in a note and not in the source."
            ),
        ),
        Column("model", "Model in the source", is_condition=True),
        Column("why", "Runs not comparable with published scores"),
    )
    notes = (
        (
            "Published scores of models with the name of the run's checkpoint. The same name does "
            "not prove the same weights."
        ),
        *spreads(listed.values()),
    )
    title = "Published scores of the same checkpoint"
    return Table(f"{benchmark}_ledger", title, columns, tuple(rows), notes=notes, role="published")


_OTHER_WEIGHTS = re.compile(r"\b(peft|delta|lora_local_path)=")


def _scores_of_checkpoint(benchmark: str, task: ScoredTask) -> list[PublishedScore]:
    """Return a benchmark's published scores with the name of the run's checkpoint."""
    if _OTHER_WEIGHTS.search(_settings_in_words(task)):
        return []
    names = checkpoint_names(task.source.model)
    return [score for score in read_ledger() if score.group[0] == benchmark and score.name in names]


def _settings_in_words(task: ScoredTask) -> str:
    """Join the names and the values of the run's settings to a text to search in."""
    provenance = task.source.provenance
    return " ".join((*provenance, *provenance.values()))


_INSTRUCTION = re.compile(
    r"""
    system[ _]instruction
    | (system|reasoning)_prompt=
    """,
    re.VERBOSE,
)


def _fields_of_run(task: ScoredTask, fields: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return how a run's score was obtained, by the ledger's fields; "" for unknown ones."""
    fields_of_run = {"frames": task.conditions.get("frames") or "", "judge": task.judge or ""}
    version = task.task_run.version
    is_current = base_version(version) == package_versions().get(task.task)
    if is_current and not _INSTRUCTION.search(_settings_in_words(task)):
        fields_of_run |= fields.get(task.task, {})
    return fields_of_run


def _cells_of_run(task: ScoredTask, score: PublishedScore, value: float) -> tuple[str | float, ...]:
    """Return the cells that compare a run's score with a published one."""
    return (
        task.name,
        score.group[1],
        score.cells["source"],
        score.cells["date"] or "unknown",
        score.cells["score"],
        value,
        value - float(score.value),
    )


def _remarks_on_run(
    task: ScoredTask, score: PublishedScore, fields_of_run: Mapping[str, str]
) -> tuple[str | None, ...]:
    """Return the cells that tell how well both scores compare; None for empty ones."""
    different = []
    same = []
    unknown = []
    for name, published in score.fields.items():
        own = fields_of_run.get(name)
        if not published or not own:
            unknown.append(name)
        elif published == own:
            same.append(f"{name}: {published}")
        else:
            different.append(f"{name}: {published} (run: {own})")
    remarks = (
        "; ".join(different),
        "; ".join(same),
        ", ".join(unknown),
        ", ".join(score.marks),
        score.cells["model"],
        "; ".join(task.objections),
    )
    return tuple(remark or None for remark in remarks)
