"""The headlines as a table, for files, terminals and model cards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmms_egoplan.report.document import DEMO_NOTE, Column, Headline, Row, Section, Table, table_of_runs
from lmms_egoplan.report.findings import shared_reasons
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.numbers import percent, with_interval
from lmms_egoplan.report.scored import in_percent

KEY = "summary"
_COLUMNS = read_columns(__file__)
note = read_notes(__file__)


@dataclass(frozen=True)
class Card:
    """One task's headlines of a section, best first, those that are not comparable last.

    chance: of the task; None if unknown.
    """

    section: Section
    task: str
    metric: str
    chance: float | None
    lines: tuple[Headline, ...]

    @property
    def compares(self) -> bool:
        """True if a run is comparable with the published scores."""
        return any(not line.apart and line.value is not None for line in self.lines)

    def not_compared(self, line: Headline) -> str:
        """Return "not compared", with the reasons unless the finding has them; "" for comparable scores."""
        if not line.apart or line.value is None:
            return ""
        return "not compared" if shared_reasons(self.section.headlines) else f"not compared: {'; '.join(line.apart)}"


def cards(sections: Iterable[Section]) -> Iterator[Card]:
    """Group the sections' headlines by task and metric, in order."""
    for section in sections:
        kinds = dict.fromkeys((line.task, line.metric) for line in section.headlines)
        for task, metric in kinds:
            own = [line for line in section.headlines if (line.task, line.metric) == (task, metric)]
            chances = {line.chance for line in own}
            chance = chances.pop() if len(chances) == 1 else None
            yield Card(section, task, metric, chance, tuple(sorted(own, key=_order)))


def _order(line: Headline) -> tuple[bool, bool, float]:
    return line.value is None, bool(line.apart), -(line.value or 0)


def demo_runs(sections: Iterable[Section]) -> list[str]:
    """List the runs with meaningless scores; with the benchmarks if other scores are real."""
    lines = [line for section in sections for line in section.headlines]
    benchmarks: dict[str, dict[str, None]] = {}
    for line in lines:
        if line.is_demo:
            benchmarks.setdefault(line.run, {})[line.benchmark] = None
    real = {line.run for line in lines if not line.is_demo}
    return [f"{run} ({', '.join(of_run)})" if run in real else run for run, of_run in benchmarks.items()]


def summary_table(sections: Sequence[Section]) -> Table | None:
    """Make the table of all headlines with their coverage; None without any."""
    rows = [
        vars(line)
        | dict(zip(("low", "high"), line.interval or (), strict=False))
        | {"no_interval": line.no_interval or None, "rank": rank_text(line) or None}
        | {"coverage": in_percent(line.coverage), "truncated": in_percent(line.truncated)}
        | {"why": "; ".join(line.apart) or None}
        for card in cards(sections)
        for line in card.lines
    ]
    if not rows:
        return None
    return table_of_runs(KEY, "Summary", _COLUMNS["summary"], rows, [note("summary")])


def short_table(sections: Sequence[Section]) -> Table | None:
    """Make a table of scores for model cards, with protocol, interval and number of questions; None without any."""
    rows = [
        (
            line.run,
            line.benchmark,
            line.protocol or line.task,
            score_text(line),
            line.questions,
            None if line.coverage is None else percent(line.coverage),
        )
        for card in cards(sections)
        for line in card.lines
    ]
    if not rows:
        return None
    demo = demo_runs(sections)
    notes = [f"{DEMO_NOTE} {', '.join(demo)}."] if demo else []
    notes += dict.fromkeys(
        f"{line.run}, {line.benchmark}: {'; '.join(line.apart)}."
        for section in sections
        for line in section.headlines
        if line.apart
    )
    return Table("card", "Scores with 95 % intervals", _COLUMNS["card"], tuple(map(Row, rows)), notes=tuple(notes))


def model_card(sections: Sequence[Section], published: Sequence[Mapping[str, str]]) -> Table | None:
    """Make a table of the runs' scores in all tasks, above published rows; None for fewer than two benchmarks.

    Args:
        published: rows with ``model``, scores by the key of the section, ``source`` and ``link``. They are in the
            column of a section's first task with generated answers.
    """
    all_cards = [*cards(with_further(sections))]
    if len({card.section.key for card in all_cards}) < 2:
        return None
    columns = [Column("model", "Model")]
    own: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    for number, card in enumerate(all_cards):
        key = f"score_{number}"
        columns.append(Column(key, f"{card.section.title}: {card.task}"))
        for line in card.lines:
            own.setdefault(line.run, {})[key] = score_text(line)
        if all(line.is_generated for line in card.lines):
            places.setdefault(card.section.key, key)
    names = [column.key for column in columns]
    rows = [Row((run, *(scores.get(key) for key in names[1:])), is_own=True) for run, scores in own.items()]
    sources: dict[str, None] = {}
    for row in published:
        scores = {places[key]: value for key, value in row.items() if key in places and value}
        if len(scores) > 1:
            rows.append(Row((row["model"], *(scores.get(key) for key in names[1:]))))
            sources[f"{row['source']}: {row['link']}"] = None
    notes = [note("published_card", sources="; ".join(sources))] if sources else []
    return Table("model_card", "All benchmarks", tuple(columns), tuple(rows), notes=tuple(notes))


def with_further(sections: Iterable[Section]) -> list[Section]:
    """Append the headlines of `Section.further` to each section's own."""
    return [replace(section, headlines=(*section.headlines, *section.further)) for section in sections]


def score_text(line: Headline) -> str:
    """Format the score with its interval, or with the reason why there is none."""
    shown = with_interval(line.value, line.interval, line.decimals)
    has_reason = line.value is not None and line.interval is None
    return f"{shown} (no interval: {line.no_interval})" if has_reason else shown


def rank_text(line: Headline) -> str:
    """Format a rank as ``1 to 2 of 4``; "" without one."""
    if line.rank is None:
        return ""
    first, last = line.rank
    return f"{first if first == last else f'{first} to {last}'} of {line.ranked}"
