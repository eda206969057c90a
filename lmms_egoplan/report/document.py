"""A report as a document: sections, figures and the gallery's items; as files for papers, and ``report.json``."""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from PIL import Image

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.run import Run, task_provenance
from lmms_egoplan.report.tables import Table, csv_of, markdown_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Verdict = Literal["right", "wrong", "partly", "unscored"]
Images = Callable[[], list[Image.Image]]
"""Reads the images that a model was shown."""

DEMO = "demo: meaningless"
DEMO_NOTE = (
    "This is a demo: rendered questions, scripted answers, or a judge that is scripted or only compares words. These "
    "scores are meaningless and say nothing about a model:"
)
SCHEMA = 1
"""Of ``report.json``, see ``docs/report-json.md``."""

# Enough for a column of a paper.
_DPI = 200


@final
@dataclass(frozen=True)
class Figure:
    """A figure.

    key: stem of its files, unique in the report.
    caption: content, source and method.
    draw: draws it, legible without colour and on white; called once.
    description: in words, for readers who do not see it.
    has_cells: true if its colours are values with words on them: they stay in a dark theme.
    """

    key: str
    title: str
    caption: str
    draw: Callable[[], "Drawing"]
    description: str
    has_cells: bool = False

    @cached_property
    def drawing(self) -> "Drawing":
        """The drawn figure."""
        return self.draw()

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG file, with its text as text."""
        import matplotlib

        content = io.StringIO()
        with matplotlib.rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": self.key, "font.sans-serif": ["DejaVu Sans"]}
        ):
            self.drawing.savefig(content, format="svg", metadata={"Date": None})
        return content.getvalue()


@dataclass(frozen=True)
class Headline:
    """A run's main score in one task, for the summary.

    interval: 95 %, in the score's unit; None without samples.
    coverage: fraction of official questions that were scored; None if unknown.
    truncated: fraction of answers that the limit on new tokens ended; None if unknown.
    is_generated: true if answers are generated, false if choices are ranked.
    beside: other readings of the same answers, by name, in the score's unit; None for missing ones.
    no_interval: why there is no interval, to print after "no interval"; "" if there is one.
    apart: why the score is not comparable; empty if it is.
    rank: the best and the worst possible place among comparable runs; None without intervals.
    ranked: number of these runs.
    is_demo: true if the score is meaningless.
    protocol: task, version, media and judge, in a few words.
    gallery: name of the run's answers in the gallery; "" for the run's own.
    """

    run: str
    benchmark: str
    task: str
    metric: str
    value: float | None
    decimals: int
    interval: tuple[float, float] | None = None
    questions: int | None = None
    coverage: float | None = None
    truncated: float | None = None
    is_generated: bool = True
    chance: float | None = None
    beside: tuple[tuple[str, float | None], ...] = ()
    no_interval: str = ""
    apart: tuple[str, ...] = ()
    rank: tuple[int, int] | None = None
    ranked: int = 0
    is_demo: bool = False
    protocol: str = ""
    gallery: str = ""


@dataclass(frozen=True)
class Difference:
    """The difference of two runs' main scores, over the questions for which both have one.

    value: first minus second, in the score's unit; low, high: its 95 % interval, None with `no_interval`.
    won, lost: questions on which the first's score is higher, or lower.
    why: why the two are not comparable; "" if they are.
    """

    first: str
    second: str
    task: str
    value: float
    low: float | None
    high: float | None
    questions: int
    won: int
    lost: int
    no_interval: str = ""
    why: str = ""

    @property
    def is_real(self) -> bool:
        """True if there is an interval, and 0 is outside."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Reference:
    """A published score to compare runs with.

    name: as in the paper's table, such as ``GPT-4V``.
    source: such as ``Table 1``.
    scores: all of the table's main column, to rank a run among.
    caveat: a difference even from comparable runs; "" for none.
    """

    name: str
    value: float
    source: str
    scores: tuple[float, ...]
    caveat: str = ""


@dataclass(frozen=True)
class Group:
    """A run's main score over the questions of one group; `no_interval` as in `Headline`."""

    name: str
    run: str
    value: float | None
    interval: tuple[float, float] | None
    no_interval: str
    questions: int


@dataclass(frozen=True)
class Slice:
    """The main score by one attribute of the questions.

    attribute: its name among the gallery's facts.
    is_fact: true if the gallery can be filtered by it; false for attributes of answers, such as people's labels.
    groups: of each run with such questions, group by group.
    """

    attribute: str
    groups: tuple[Group, ...]
    is_fact: bool = True

    @property
    def names(self) -> list[str]:
        """The names of the groups."""
        return list(dict.fromkeys(group.name for group in self.groups))


@dataclass(frozen=True)
class Change:
    """Two runs of one model in one task, the earlier one first.

    difference: later minus earlier.
    earlier, later: date and score of each.
    changed: differences of their settings, a line each.
    gallery: names of the earlier and the later run's answers in the gallery.
    """

    task: str
    difference: Difference
    earlier: tuple[str, float | None]
    later: tuple[str, float | None]
    changed: tuple[str, ...]
    gallery: tuple[str, str]


@dataclass(frozen=True)
class Section:
    """One benchmark's part of the report.

    key: the benchmark's name, with a suffix for older versions of its tasks.
    lead: one or two sentences on what is measured.
    remarks: flaws and gaps of the runs.
    finding: the result in sentences; never a difference without its interval.
    unit: of the main score, after numbers: ``points``; "" for none.
    top: the highest possible main score.
    further: main scores in tasks that the summary omits, for model cards.
    """

    key: str
    title: str
    lead: str
    headlines: tuple[Headline, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    finding: tuple[str, ...] = ()
    unit: str = "points"
    top: float = 100
    reference: Reference | None = None
    differences: tuple[Difference, ...] = ()
    slices: tuple[Slice, ...] = ()
    changes: tuple[Change, ...] = ()
    further: tuple[Headline, ...] = ()


@dataclass(frozen=True)
class ShownAnswer:
    """One run's answer to one question, for the gallery.

    text: the answer in the model's words; None if choices were ranked.
    logprobs: mean log-probability per token of each choice, nats; None if nothing was ranked.
    chosen: index of the chosen choice.
    rating: with its scale in words, such as ``"0.5 of 1"``.
    judgement: the judge's words.
    reply: the model's whole reply, if `text` was parsed from it.
    prompt: as sent, without images; None if the harness does not log it.
    tokens: of the prompt and of the answer; None if the harness does not count them.
    """

    verdict: Verdict
    text: str | None = None
    logprobs: Sequence[float | None] | None = None
    chosen: int | None = None
    rating: str | None = None
    judgement: str | None = None
    reply: str | None = None
    prompt: str | None = None
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class Item:
    """A question of the gallery with the runs' answers.

    key: unique in the report: the benchmark's name and the question's id in it, ``NAME/existence/1``.
    facts: attributes to filter by: source, dimension, scenario, setting, ...
    references: the right answers, named.
    images: None if they are not available.
    answers: by run; by ``"name (task)"`` if a run has several tasks over the question.
    title: its distinguishing text for the list; "" for the question itself.
    """

    key: str
    benchmark: str
    question: str
    facts: dict[str, str]
    choices: tuple[str, ...] = ()
    gold: int | None = None
    references: dict[str, str] = field(default_factory=dict)
    images: Images | None = None
    answers: dict[str, ShownAnswer] = field(default_factory=dict)
    title: str = ""


def write_files(
    out: Path, sections: Iterable[Section], progress: Callable[[str, int, int], None], more: Sequence[Table] = ()
) -> None:
    """Write ``tables/<key>.csv``, ``tables/<key>.md``, ``figures/<key>.svg`` and ``figures/<key>.png``.

    Delete files of these kinds of an earlier report (`outputs.delete`).

    Args:
        more: tables of no section.

    Raises:
        OSError: the folder cannot be written.
    """
    sections = list(sections)
    tables = [*more, *(table for section in sections for table in section.tables)]
    for table in tables:
        write_whole(out / "tables" / f"{table.key}.csv", csv_of(table))
        write_whole(out / "tables" / f"{table.key}.md", markdown_of(table))
    figures = [figure for section in sections for figure in section.figures]
    _delete_others(out / "tables", {table.key for table in tables}, (".csv", ".md"))
    _delete_others(out / "figures", {figure.key for figure in figures}, (".svg", ".png"))
    for done, figure in enumerate(figures, 1):
        write_figure(out / "figures", figure)
        progress("figure files", done, len(figures))


def write_figure(folder: Path, figure: Figure) -> None:
    """Write a figure as SVG, with its text as text, and as PNG.

    Raises:
        OSError: the folder cannot be written.
    """
    picture = io.BytesIO()
    figure.drawing.savefig(picture, format="png", dpi=_DPI)
    write_whole(folder / f"{figure.key}.svg", figure.svg)
    write_whole(folder / f"{figure.key}.png", picture.getvalue())


def _delete_others(folder: Path, keys: set[str], suffixes: tuple[str, ...]) -> None:
    delete(path for path in folder.glob("*") if path.suffix in suffixes and path.stem not in keys)


def json_of(sections: Sequence[Section], runs: Sequence[Run], skipped: Sequence[str], questions: int) -> str:
    """Format the file; unknown values are null, without NaN and infinities.

    Args:
        questions: their number in the gallery.
    """
    content = {
        "schema": SCHEMA,
        "package": {"name": "lmms-egoplan", "version": __version__},
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "questions": questions,
        "runs": [
            _fields(run, "name", "model", "harness", "time", "provenance")
            | {"tasks": {name: task_provenance(task) for name, task in run.tasks.items()}}
            for run in runs
        ],
        "benchmarks": [_section(section) for section in sections],
        "skipped": skipped,
    }
    return json.dumps(_known(content), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _fields(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _section(section: Section) -> dict[str, Any]:
    return {
        **_fields(section, "key", "title", "unit", "finding", "remarks"),
        "scores": [_with_ends(line) | {"beside": dict(line.beside)} for line in section.headlines],
        "differences": [asdict(pair) for pair in section.differences],
        "reference": None if section.reference is None else asdict(section.reference),
        "slices": [
            {"attribute": part.attribute, "groups": [_with_ends(group) for group in part.groups]}
            for part in section.slices
        ],
        "changes": [asdict(change) for change in section.changes],
        "tables": [_table(table) for table in section.tables],
        "figures": [_fields(figure, "key", "title", "caption") for figure in section.figures],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        **_fields(table, "key", "title", "role", "source", "notes"),
        "columns": [asdict(column) for column in table.columns],
        "rows": [{"values": row.values, "own": row.is_own} for row in table.rows],
    }


def _with_ends(scored: Headline | Group) -> dict[str, Any]:
    low, high = scored.interval or (None, None)
    return {name: value for name, value in asdict(scored).items() if name != "interval"} | {"low": low, "high": high}


def _known(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, (list, tuple)) else value
