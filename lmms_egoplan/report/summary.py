"""Make tables of the main scores for files, pages, terminals and model cards.

Each has its own columns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmms_egoplan.report import tables
from lmms_egoplan.report.document import DEMO_NOTE, Headline, Section
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column

KEY = "summary"


@dataclass(frozen=True)
class Card:
    """The headlines of one task and protocol of a section, best first.

    Headlines that are not comparable come last.

    task: name of the task, or its protocol if the section has several protocols of the task.
    chance: score of random answers in the task; None if unknown.
    """

    section: Section
    task: str
    metric: str
    chance: float | None
    lines: tuple[Headline, ...]

    @property
    def compares(self) -> bool:
        """True if the card compares runs with the published scores.

        It is then of the section's first task, and a run is comparable.
        """
        is_first = self.lines[0].task == self.section.headlines[0].task
        return is_first and any(not line.apart and line.value is not None for line in self.lines)

    def not_compared(self, line: Headline) -> str:
        """Return "not compared", with the reasons unless the finding states them.

        "" for comparable scores.
        """
        if not line.apart or line.value is None:
            return ""
        reasons = "; ".join(line.apart)
        is_stated = any(reasons in sentence for sentence in self.section.finding)
        return "not compared" if is_stated else f"not compared: {reasons}"


def cards(sections: Iterable[Section]) -> Iterator[Card]:
    """Group the sections' headlines by task, metric and protocol, in order."""
    for section in sections:
        kinds: dict[tuple[str, str], dict[str, list[Headline]]] = {}
        for line in section.headlines:
            kinds.setdefault((line.task, line.metric), {}).setdefault(line.protocol, []).append(
                line
            )
        for (task, metric), protocols in kinds.items():
            for protocol, lines in protocols.items():
                chances = {line.chance for line in lines}
                chance = chances.pop() if len(chances) == 1 else None
                name = task if len(protocols) == 1 else protocol
                ordered = sorted(
                    lines,
                    key=lambda line: (line.value is None, bool(line.apart), -(line.value or 0)),
                )
                yield Card(section, name, metric, chance, tuple(ordered))


def demo_runs(sections: Iterable[Section]) -> list[str]:
    """List the runs with meaningless scores. If a run also has real scores, name the benchmarks."""
    lines = [line for section in sections for line in section.headlines]
    benchmarks: dict[str, dict[str, None]] = {}
    for line in lines:
        if line.is_demo:
            benchmarks.setdefault(line.run, {})[line.benchmark] = None
    real = {line.run for line in lines if not line.is_demo}
    return [
        f"{run} ({', '.join(of_run)})" if run in real else run for run, of_run in benchmarks.items()
    ]


def summary_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make the table of all headlines with their coverage; None without headlines."""
    lines = [line for card in cards(sections) for line in card.lines]
    if not lines:
        return None
    columns = (
        Column("run", "Run"),
        Column("benchmark", "Benchmark"),
        Column("task", "Task"),
        Column("metric", "Score"),
        Column("value", "Value", decimals=3),
        Column("low", "Low", decimals=3),
        Column("high", "High", decimals=3),
        Column("no_interval", "No interval"),
        Column("rank", "Rank"),
        Column("questions", "Questions"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("why", "Not comparable"),
    )
    notes = [
        (
            "Low, high: 95 % interval. Rank: best and worst rank among comparable runs, by "
            "the intervals of their differences. Coverage: scored share of the official "
            "questions. If the questions are not the benchmark's, coverage is the scored "
            "share of the prepared questions."
        ),
    ]
    for line in lines:
        if line.truncated_of:
            notes.append(
                f"{line.run}, {line.task}: truncated is a share of {line.truncated_of:,} "
                "answers whose length is known."
            )
    return tables.table_of_runs(KEY, "Summary", columns, map(_numbers, lines), notes)


def short_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make a table of scores for model cards.

    It has protocol, interval and number of questions. None without scores.
    """
    rows = [_texts(line) for card in cards(sections) for line in card.lines]
    demo = demo_runs(sections)
    notes = [f"{DEMO_NOTE} {', '.join(demo)}."] if demo else []
    notes += dict.fromkeys(
        f"{line.run}, {line.benchmark}: {'; '.join(line.apart)}."
        for section in sections
        for line in section.headlines
        if line.apart
    )
    if not rows:
        return None
    columns = (
        Column("run", "Model"),
        Column("benchmark", "Benchmark"),
        Column("protocol", "Protocol"),
        Column("score", "Score (95 % interval)"),
        Column("n", "n"),
        Column("coverage", "Coverage"),
    )
    table = tables.table_of_runs("card", "Scores with 95 % intervals", columns, rows, notes)
    return replace(table, rows=tuple(replace(row, is_ours=False) for row in table.rows), source="")


def number_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make a table of scores for programs, with each number in its own column.

    None without scores.
    """
    rows = [
        _numbers(line)
        | {
            "score": line.value,
            "n": line.questions,
            "not_comparable": "; ".join(line.apart) or None,
        }
        for card in cards(sections)
        for line in card.lines
    ]
    if not rows:
        return None
    columns = (
        Column("run", "Model"),
        Column("benchmark", "Benchmark"),
        Column("task", "Task"),
        Column("protocol", "Protocol"),
        Column("metric", "Metric"),
        Column("score", "Score"),
        Column("low", "Low"),
        Column("high", "High"),
        Column("n", "n"),
        Column("coverage", "Coverage %"),
        Column("chance", "Chance"),
        Column("no_interval", "No interval"),
        Column("not_comparable", "Not comparable"),
    )
    return tables.table_of_runs("numbers", "Scores", columns, rows)


def card_table(card: Card) -> tables.Table:
    """Make a card's table for a terminal, without the reasons in `reasons`."""
    rows = []
    for line in card.lines:
        score = tables.with_interval(line.value, line.interval, line.decimals)
        if line.value is not None and line.interval is None:
            score += " (no interval)"
        if line.apart and line.value is not None:
            score += "; not compared"
        rows.append(_texts(line) | {"score": score})
    title = f"{card.section.title}: {card.metric} ({card.task})"
    columns = (
        Column("run", "Run"),
        Column("score", "Score, 95 % interval"),
        Column("rank", "Rank"),
        Column("questions", "Questions", decimals=0),
        Column("covered", "Coverage", decimals=1),
    )
    return tables.table_of_runs("terminal", title, columns, rows)


def reasons(all_cards: Sequence[Card]) -> list[str]:
    """Explain, once for all cards, which scores have no interval or are not compared."""
    places: dict[str, dict[str, list[str]]] = {}
    for card in all_cards:
        for line in card.lines:
            if line.value is None:
                continue
            problems = [f"Not compared ({reason})" for reason in line.apart]
            if line.interval is None:
                problems.append(f"No interval ({line.no_interval})")
            for problem in problems:
                runs = places.setdefault(problem, {})
                runs.setdefault(line.run, []).append(f"{card.section.title} ({card.task})")
    num_scores = Counter(
        line.run for card in all_cards for line in card.lines if line.value is not None
    )
    return [f"{problem}: {_scope(runs, num_scores)}" for problem, runs in places.items()]


def _scope(runs: Mapping[str, Sequence[str]], num_scores: Mapping[str, int]) -> str:
    """Name runs with the same scores together. `runs` has the names of the scores of each."""
    together: dict[tuple[str, ...], list[str]] = {}
    for run, scores in runs.items():
        is_every_score = len(scores) == num_scores[run]
        together.setdefault(() if is_every_score else tuple(scores), []).append(run)
    parts = []
    for scores, names in together.items():
        who = "all runs" if len(names) == len(num_scores) else ", ".join(names)
        parts.append(f"{who} in {', '.join(scores)}" if scores else who)
    return "; ".join(parts)


def _numbers(line: Headline) -> dict[str, Any]:
    """Return a headline's values by column; None for empty texts."""
    low, high = line.interval or (None, None)
    return {
        **vars(line),
        **{"low": low, "high": high},
        "no_interval": line.no_interval or None,
        "rank": rank_text(line) or None,
        "coverage": in_percent(line.coverage),
        "truncated": in_percent(line.truncated),
        "why": "; ".join(line.apart) or None,
    }


def _texts(line: Headline) -> dict[str, Any]:
    """Return a headline's values by column, with scores and coverage as texts."""
    covered = None if line.coverage is None else tables.percent(line.coverage)
    texts = {"protocol": line.protocol or line.task, "score": score_text(line), "n": line.questions}
    return _numbers(line) | texts | {"coverage": covered, "covered": covered or "unknown"}


def model_card(
    sections: Sequence[Section], published: Sequence[Mapping[str, str]]
) -> tables.Table | None:
    """Make a table of the runs' scores in all tasks, above published rows.

    None for fewer than two benchmarks.

    Args:
        sections: the report's sections.
        published: rows with ``model``, scores by the key of the section, ``source`` and ``link``.
            Their scores are in the column of a section's first task with generated answers.
    """
    all_cards = [*cards(sections)]
    if len({card.section.key for card in all_cards}) < 2:
        return None
    columns = [tables.Column("model", "Model")]
    run_scores: dict[str, dict[str, str]] = {}
    # Key of a section -> column of its first task with generated answers.
    generated: dict[str, str] = {}
    for number, card in enumerate(all_cards):
        key = f"score_{number}"
        columns.append(tables.Column(key, f"{card.section.title}: {card.task}"))
        for line in card.lines:
            run_scores.setdefault(line.run, {})[key] = score_text(line)
        if all(line.is_generated for line in card.lines):
            generated.setdefault(card.section.key, key)
    keys = [column.key for column in columns[1:]]
    rows = []
    for run, scores_of_run in run_scores.items():
        cells = [scores_of_run.get(key) for key in keys]
        rows.append(tables.Row((run, *cells), is_ours=True))
    sources: dict[str, None] = {}
    for row in published:
        scores = {generated[key]: value for key, value in row.items() if key in generated and value}
        if len(scores) > 1:
            rows.append(tables.Row((row["model"], *(scores.get(key) for key in keys))))
            sources[f"{row['source']}: {row['link']}"] = None
    notes = []
    if sources:
        names = "; ".join(sources)
        notes.append(
            f"Published rows: {names}. They come from a public summary of the table, "
            "not from the paper itself. The summary does not state prompts, number of "
            "frames or judge, so use these rows only for orientation."
        )
    return tables.Table(
        "model_card", "All benchmarks", tuple(columns), tuple(rows), notes=tuple(notes)
    )


def score_text(line: Headline) -> str:
    """Format the score with its interval, or with the reason why there is none."""
    text = tables.with_interval(line.value, line.interval, line.decimals)
    has_reason = line.value is not None and line.interval is None
    return f"{text} (no interval: {line.no_interval})" if has_reason else text


def rank_text(line: Headline) -> str:
    """Format a rank as ``1 to 2 of 4``; "" without one."""
    if line.rank is None:
        return ""
    first, last = line.rank
    return f"{first if first == last else f'{first} to {last}'} of {line.ranked}"
