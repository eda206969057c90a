"""Read the ledger of published scores, mark its rows, and compare them with runs.

``ledger.csv`` has one row per printed number. ``ledger.yaml`` describes its columns and the
benchmarks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import base_version
from lmms_egoplan.paths import module_rows, module_yaml
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.run import package_versions
from lmms_egoplan.report.scores import Mean, ScoredTask
from lmms_egoplan.report.tables import Column, Row, Table, counted
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import quoted

LEDGER = Path(__file__).with_suffix(".csv")
_FACTS = module_yaml(__file__)
_BENCHMARKS = _FACTS["benchmarks"]


def checkpoint_names(model: str) -> tuple[str, str]:
    """Return a model's name without folders and separators.

    Also return the same without an end such as ``Instruct``.

    >>> checkpoint_names("org/Model-2.5-7B-Instruct")
    ('model257binstruct', 'model257b')
    """
    name = re.sub(r"[^a-z0-9]", "", model.rstrip("/").rpartition("/")[2].lower())
    name = _FACTS["aliases"].get(name, name)
    return name, re.sub(_FACTS["suffix"], "", name)


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
        LmmsEgoplanError: a row is incomplete, or a cell does not have the form that ``ledger.yaml``
            describes.
    """
    scores = [
        _checked(f"{path}, line {line}", cells)
        for line, cells in enumerate(module_rows(str(path)), 2)
    ]
    order = [(name, subset) for name, facts in _BENCHMARKS.items() for subset in facts["subsets"]]
    scores.sort(key=lambda score: (order.index(score.group[:2]), -score.value))
    return tuple(replace(score, marks=_marks(score, scores)) for score in scores)


def _checked(where: str, cells: Mapping[str, str]) -> PublishedScore:
    for column, (pattern, expected) in _FACTS["columns"].items():
        if None in (*cells, cells.get(column)) or not re.fullmatch(pattern, cells[column]):
            problem = f"expected {expected}, found {quoted(cells.get(column))}"
            raise LmmsEgoplanError(
                f"{where}, {column}: {problem}; correct it, and quote texts that contain commas"
            )
    title, subset, metric = (cells[column] for column in ("benchmark", "split_or_subset", "metric"))
    for benchmark, facts in _BENCHMARKS.items():
        if (title, metric) == (facts["title"], facts["metric"]) and subset in facts["subsets"]:
            questions = facts["subsets"][subset] or int(cells["questions"] or 0)
            stated = {**cells, "questions": str(questions) if cells["questions"] else ""}
            fields = {field: stated[field] for field in facts["fields"]}
            name, short = checkpoint_names(cells["model"])
            return PublishedScore(
                cells, (benchmark, subset, short), name, Fraction(cells["score"]), questions, fields
            )
    names = f"benchmark {title!r}, subset {subset!r} or metric {metric!r}"
    raise LmmsEgoplanError(
        f"{where}: unknown {names}; correct the row, or add the name to ledger.yaml"
    )


def _marks(score: PublishedScore, scores: Iterable[PublishedScore]) -> tuple[str, ...]:
    (benchmark, subset, model) = score.group
    cells = score.cells
    facts = _BENCHMARKS[score.group[0]]
    half_digit = Fraction(1, 2 * 10 ** len(cells["score"].partition(".")[2]))
    earlier = [
        x.value for x in scores if x.group == score.group and "" < x.cells["date"] < cells["date"]
    ]
    for table, column in facts["paper"].get(subset, []):
        rows = load_table(benchmark, table).scores(column)
        earlier += [
            Fraction(str(value)) for name, value in rows if checkpoint_names(name)[1] == model
        ]
    is_copied = any(abs(value - score.value) <= half_digit for value in earlier)
    steps = score.questions * facts["levels"]
    nearest = Fraction(100 * round(score.value * steps / 100), steps or 1)
    marks = {
        "copy": is_copied or re.search(_FACTS["copied"], cells["note"]),
        "not whole": steps and abs(nearest - score.value) > half_digit,
        "below chance": score.value < facts["chance"],
        "quoted": cells["read_in"] == "quoted",
    }
    return tuple(mark for mark, applies in marks.items() if applies)


def scores_of_model(scores: Sequence[PublishedScore], model: str) -> list[PublishedScore]:
    """Return the scores of all models whose names contain a name.

    Case and separators do not matter.

    Raises:
        LmmsEgoplanError: there is none. The message contains the closest names.
    """
    (part, short) = checkpoint_names(model)
    names = {score.name: score.cells["model"] for score in scores}
    if not part or not any(part in name or name == short for name in names):
        close = join_list([names[name] for name in get_close_matches(part, names, n=3, cutoff=0)])
        raise LmmsEgoplanError(
            f"--model {model}: no published score of this model; the closest names are {close}"
        )
    return [score for score in scores if part in score.name or score.name == short]


def spreads(scores: Iterable[PublishedScore]) -> Iterator[str]:
    """Describe the spread of each model and subset with several scores that are not copies."""
    groups: dict[tuple[str, str, str], list[PublishedScore]] = {}
    for score in scores:
        if "copy" not in score.marks:
            groups.setdefault(score.group, []).append(score)
    for group in (group for group in groups.values() if len(group) > 1):
        low, *_, high = sorted(group, key=lambda score: score.value)
        ((model, _),) = Counter(score.cells["model"] for score in group).most_common(1)
        subject = ", ".join((model, low.cells["benchmark"], low.group[1]))
        points = f"{float(high.value - low.value):g} points, {len(group)} scores"
        yield (
            f"Spread of {subject}: {low.cells['score']} to {high.cells['score']}, {points} "
            "without copies."
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
        _, known, unknown = _compared(score.fields, score.fields)
        protocol = f"{known}; unknown: {unknown}" if known and unknown else known or "unknown"
        cells = {**score.cells, "date": score.cells["date"] or "unknown", "subset": score.group[1]}
        cells |= {"marks": ", ".join(score.marks), "protocol": protocol}
        rows.append(Row(tuple(cells[column.key] for column in columns)))
    counts = [
        counted(len(scores), "scores"),
        counted(len({score.cells["source"] for score in scores}), "sources"),
    ]
    marks = Counter(mark for score in scores for mark in score.marks)
    counts += [f"{count} marked {mark}" for mark, count in marks.items()]
    notes = (*(spreads(scores) if with_spread else ()), f"{', '.join(counts)}.")
    return Table("ledger", "Published scores", columns, tuple(rows), notes=notes)


def _compared(published: Mapping[str, str], run: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the fields that differ, that are the same and that are unknown, each in words."""
    known = {name: text for name, text in published.items() if text and run.get(name)}
    different = (
        f"{name}: {text} (run: {run[name]})" for name, text in known.items() if text != run[name]
    )
    same = (f"{name}: {text}" for name, text in known.items() if text == run[name])
    return (
        "; ".join(different),
        "; ".join(same),
        ", ".join(name for name in published if name not in known),
    )


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
        fields: fields that each task's current version determines, by the ledger's names. A preset
            that is no task of its own follows the task's name: ``TASK+PRESET``.
    """
    rows = []
    listed = {}
    for task, means in tasks:
        details = task.run.provenance
        settings = " ".join((*details, *details.values()))
        names = (
            ()
            if re.search(r"\b(peft|delta|lora_local_path)=", settings)
            else checkpoint_names(task.run.model)
        )
        is_instructed = re.search("system[ _]instruction|(system|reasoning)_prompt=", settings)
        _, *preset = (task.task_run.version or "").partition("+")
        is_current = base_version(task.task_run.version) == package_versions().get(task.task)
        of_run = {"frames": task.conditions.get("frames") or "", "judge": task.judge or ""}
        of_run |= (
            fields.get("".join((task.task, *preset)), {})
            if is_current and not is_instructed
            else {}
        )
        for score in read_ledger():
            mean = means.get(score.group[1], Mean())
            if score.group[0] == benchmark and score.name in names and mean.value is not None:
                listed[id(score)] = score
                texts = _compared(score.fields, of_run | {"questions": str(mean.questions or "")})
                source = (
                    score.cells["source"],
                    score.cells["date"] or "unknown",
                    score.cells["score"],
                )
                remarks = (
                    *texts,
                    ", ".join(score.marks),
                    score.cells["model"],
                    "; ".join(task.objections),
                )
                cells = (
                    task.name,
                    score.group[1],
                    *source,
                    mean.value,
                    mean.value - float(score.value),
                )
                rows.append(Row((*cells, *(text or None for text in remarks)), is_ours=True))
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
        Column("different", "Different"),
        Column("same", "Same"),
        Column("unknown", "Unknown"),
        Column("marks", "Marks"),
        Column("model", "Model in the source"),
        Column("why", "Run not comparable"),
    )
    notes = (
        (
            "Published scores of models with the name of the run's checkpoint. The same name does "
            "not prove the same weights. Different: what the source and the run state differently. "
            "Same: what both state alike. Unknown: what at least one of them does not state. "
            "Marks: copy, the number is in an earlier source; not whole, no whole number of right "
            "answers gives this score; below chance, the score is lower than that of random "
            "answers; quoted, the number was read in a note and not in the source."
        ),
        *spreads(listed.values()),
    )
    title = "Published scores of the same checkpoint"
    return Table(f"{benchmark}_ledger", title, columns, tuple(rows), notes=notes, role="published")
