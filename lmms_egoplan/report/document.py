"""The report as a document: sections, figures and gallery items.

Also writes files for papers and ``report.json``.
"""

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
from lmms_egoplan.report.run import Run, task_provenance
from lmms_egoplan.report.tables import Table, csv_of, markdown_of
from lmms_egoplan.stats.equivalence import ERROR_RATE

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Verdict = Literal["right", "wrong", "partly", "unscored"]
Images = Callable[[], list[Image.Image]]
"""A function that reads the images that a model saw."""

DEMO = "demo: meaningless"
DEMO_NOTE = (
    "This is a demo with rendered questions, scripted answers, or a judge that is scripted or only "
    "compares words. These runs have meaningless scores:"
)
SCHEMA = 1
"""Number of the schema of ``report.json``, see ``docs/report-json.md``."""

# For print.
_DPI = 300


@final
@dataclass(frozen=True)
class Figure:
    """A figure.

    key: stem of its files, unique in the report.
    caption: content, source and method.
    draw: function that draws the figure, legible on white and without colour. Called once.
    description: the figure in words, for readers who cannot see it.
    has_cells: true if colours encode values and have text on them. A dark theme does not change
    these colours.
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
        """The content of the figure's SVG file, with text as text."""
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

    interval: 95 % interval, in the score's unit; None without samples.
    coverage: scored fraction of the official questions; None if unknown.
    truncated: fraction of answers that reached the limit on new tokens; None if unknown.
    truncated_of: number of answers that `truncated` covers, if the length of others is unknown;
    None if it covers all.
    is_generated: true if answers are generated, false if choices are ranked.
    chance: score of random answers; None if unknown.
    beside: other scores of the same answers, by name, in the score's unit; None for missing ones.
    no_interval: reason why there is no interval, to print after "no interval"; "" if there is one.
    apart: reasons why the score is not comparable with published scores; empty if it is.
    rank: best and worst possible rank among comparable runs; None without intervals.
    ranked: number of ranked runs.
    is_demo: true if the score is meaningless.
    protocol: task, version, media and judge, in a few words.
    is_main: true for the score of the run that represents the benchmark in the table of results.
    checkpoint: identity of the model (`Run.checkpoint`); "" if unknown.
    remarks: what a reader should know about the score, in sentences, though it is comparable.
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
    truncated_of: int | None = None
    is_generated: bool = True
    chance: float | None = None
    beside: tuple[tuple[str, float | None], ...] = ()
    no_interval: str = ""
    apart: tuple[str, ...] = ()
    rank: tuple[int, int] | None = None
    ranked: int = 0
    is_demo: bool = False
    protocol: str = ""
    is_main: bool = False
    checkpoint: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """The difference of two runs' main scores, over the questions for which both have a score.

    value: first minus second, in the score's unit.
    low, high: ends of the 95 % interval; None if there is none, see `no_interval`.
    won, lost: number of questions on which the first run's score is higher, or lower.
    no_interval: reason why there is no interval; "" if there is one.
    why: reason why the two are not comparable; "" if they are.
    p_value: p-value of the test of the difference (`stats.intervals.difference_test`); None if it
    was not tested.
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
    p_value: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """True if there is an interval and it excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def is_real(self) -> bool:
        """True if the interval excludes 0 and the test, if there is one, agrees at 5 %."""
        return self.excludes_zero and (self.p_value is None or self.p_value <= ERROR_RATE)


@dataclass(frozen=True)
class Reference:
    """A published score to compare runs with.

    name: name in the paper's table, such as ``GPT-4V``.
    source: table in the paper, such as ``Table 1``.
    scores: all scores of the table's main column, to rank a run among them.
    caveat: remaining difference between the published score and comparable runs, such as the judge;
    "" for none.
    """

    name: str
    value: float
    source: str
    scores: tuple[float, ...]
    caveat: str = ""


@dataclass(frozen=True)
class Published:
    """A published main score, for the table of results.

    tasks: names of the tasks whose protocol the source does not contradict.
    model: the model's name, as in the source.
    value: the score, in the main score's unit.
    text: the score with the printed digits.
    source: the work that prints the score, with the table if known.
    protocol: what the source states about its protocol; "" for nothing.
    """

    tasks: tuple[str, ...]
    model: str
    value: float
    text: str
    source: str
    protocol: str = ""


@dataclass(frozen=True)
class Group:
    """A run's main score over the questions of one group.

    no_interval: see `Headline`.
    task: name of the run's task; "" for a baseline without a model.
    note: for a baseline, a sentence on how it answers; "" for other groups.
    """

    name: str
    run: str
    value: float | None
    interval: tuple[float, float] | None
    no_interval: str
    questions: int
    task: str = ""
    note: str = ""


@dataclass(frozen=True)
class Slice:
    """The main score by one attribute of the questions.

    attribute: name of the attribute among the gallery's facts.
    groups: the scores of each run in each group, group by group.
    is_fact: true if the gallery can filter by the attribute; false for attributes of answers, such
    as people's labels.
    """

    attribute: str
    groups: tuple[Group, ...]
    is_fact: bool = True

    @property
    def names(self) -> list[str]:
        """The names of the groups."""
        return list(dict.fromkeys(group.name for group in self.groups))

    @property
    def no_interval(self) -> str:
        """The reasons why groups have no interval, each once; "" if all have one."""
        counts: dict[str, dict[str, None]] = {}
        for group in self.groups:
            count, _, reason = group.no_interval.rpartition(", ")
            if reason:
                counts.setdefault(reason, {})[count] = None
        texts = []
        for reason, names in counts.items():
            known = ", ".join(filter(None, names))
            texts.append(f"{reason} ({known})" if known else reason)
        return "; ".join(texts)


@dataclass(frozen=True)
class Change:
    """Two runs of one model, or of one training run, in one task, the earlier one first.

    models: how the models are related, such as ``the same weights``.
    difference: later minus earlier.
    earlier, later: date and score of each.
    changed: changed settings, one line each.
    """

    task: str
    difference: Difference
    earlier: tuple[str, float | None]
    later: tuple[str, float | None]
    changed: tuple[str, ...]
    models: str = ""


@dataclass(frozen=True)
class Section:
    """One benchmark's part of the report.

    key: the benchmark's name, with a suffix for older versions of its tasks.
    lead: one or two sentences on what the benchmark measures.
    remarks: flaws and gaps of the runs.
    finding: the result in sentences. Every difference has its interval.
    unit: unit after numbers of the main score, such as ``points``; "" for none.
    top: highest possible main score.
    baselines: scores without a model over the questions that were asked, each with its name as the
    group's.
    notes: notes of several tables, for a page.
    published: published main scores.
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
    baselines: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()


@dataclass(frozen=True)
class ShownPart:
    """A part of an answer that has its own reference and rating.

    name: name of the part, which is also the name of its reference.
    text: the part in the model's words; None if it is missing.
    rating: the rating, or the reason why there is none, in words.
    judgement: the judge's words.
    """

    name: str
    text: str | None
    rating: str
    judgement: str | None = None


@dataclass(frozen=True)
class Alignment:
    """The steps of a plan that a gold plan has in the same order.

    gold: name of the gold plan, see `Item.golds`.
    length: length of the longest common subsequence, in steps.
    steps: number of steps of the longer plan.
    norm: `length` divided by `steps`, the score of the plan.
    pairs: positions, from 0, in the plan and in the gold plan; None if they were not logged.
    """

    gold: str
    length: int
    steps: int
    norm: float
    pairs: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class PeoplesRating:
    """People's rating of an answer.

    text: the rating with its scale, in words.
    is_disputed: true if the judge's rating is clearly different. Each benchmark defines this.
    """

    text: str
    is_disputed: bool


@dataclass(frozen=True)
class ShownAnswer:
    """One run's answer to one question, for the gallery.

    text: the answer in the model's words; None if choices were ranked.
    logprobs: mean log-probability per token of each choice, in nats; None if nothing was ranked.
    chosen: index of the chosen choice.
    rating: the rating with its scale in words, such as ``"0.5 of 1"``.
    judgement: the judge's words.
    reply: the model's complete reply, if `text` was parsed from it.
    prompt: the prompt as sent, without images; None if the harness does not log it.
    tokens: number of tokens of the prompt and of the answer; None if the harness does not count
    them.
    task: name and version of the task; the version is None if unknown.
    gain: nats that the video adds to the right choice, and to its margin over the best wrong one;
    None if unknown.
    parts: the parts of `text` with their ratings; empty if the answer is rated as a whole.
    steps: the steps of a plan; None for other answers.
    alignments: the plan compared with each gold plan.
    people: people's rating of the answer; None if people did not rate it.
    is_demo: true if the rating is meaningless.
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
    task: tuple[str, str | None] | None = None
    gain: tuple[float | None, float | None] = (None, None)
    parts: tuple[ShownPart, ...] = ()
    steps: tuple[str, ...] | None = None
    alignments: tuple[Alignment, ...] = ()
    people: PeoplesRating | None = None
    is_demo: bool = False


AnswerKey = tuple[str, str]
"""Names of the run and of the task that an answer is from."""


@dataclass(frozen=True)
class Item:
    """A question of the gallery with the runs' answers.

    key: unique key in the report: the benchmark's name and the question's id, such as
    ``NAME/existence/1``.
    facts: attributes to filter by: source, dimension, scenario, setting, ...
    references: the right answers, by name.
    images: function that reads the images; None if they are not available.
    answers: answers by run and task.
    tasks: names of the benchmark's tasks, the main task first.
    title: distinguishing text for the list; "" for the question itself.
    video: id of the question's video; None if it has none, or if it is unknown.
    identity: digest that only this question has, in any report. Other data may use the same `key`.
    "" if unknown.
    golds: steps of the gold plans, by the names in `references`.
    """

    key: str
    benchmark: str
    question: str
    facts: dict[str, str]
    choices: tuple[str, ...] = ()
    gold: int | None = None
    references: dict[str, str] = field(default_factory=dict)
    images: Images | None = None
    answers: dict[AnswerKey, ShownAnswer] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    title: str = ""
    video: str | None = None
    identity: str = ""
    golds: dict[str, tuple[str, ...]] = field(default_factory=dict)


def write_files(
    out: Path,
    sections: Iterable[Section],
    progress: Callable[[str, int, int], None],
    extra: Sequence[Table] = (),
) -> None:
    """Write tables as CSV and Markdown, and figures as SVG and PNG.

    Files are named by key, such as ``tables/<key>.csv`` and ``figures/<key>.png``.

    Args:
        out: folder for the files.
        sections: sections with tables and figures.
        progress: function called with the kind of work, the number of finished items and the total.
        extra: tables that belong to no section.

    Raises:
        OSError: the folder is not writable.
    """
    sections = list(sections)
    tables = [*extra, *(table for section in sections for table in section.tables)]
    for table in tables:
        write_whole(out / "tables" / f"{table.key}.csv", csv_of(table))
        write_whole(out / "tables" / f"{table.key}.md", markdown_of(table))
    figures = [figure for section in sections for figure in section.figures]
    for done, figure in enumerate(figures, 1):
        write_figure(out / "figures", figure)
        progress("figure files", done, len(figures))


def write_figure(folder: Path, figure: Figure) -> None:
    """Write a figure as SVG, with text as text, and as PNG.

    Raises:
        OSError: the folder is not writable.
    """
    picture = io.BytesIO()
    figure.drawing.savefig(picture, format="png", dpi=_DPI)
    write_whole(folder / f"{figure.key}.svg", figure.svg)
    write_whole(folder / f"{figure.key}.png", picture.getvalue())


def json_of(
    sections: Sequence[Section], runs: Sequence[Run], skipped: Sequence[str], questions: int
) -> str:
    """Format the content of ``report.json``. NaN, infinities and unknown values become null.

    Args:
        sections: sections of the report.
        runs: runs of the report.
        skipped: skipped inputs with the reason.
        questions: number of questions in the gallery.
    """
    content = {
        "schema": SCHEMA,
        "package": {"name": "lmms-egoplan", "version": __version__},
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "questions": questions,
        "runs": [_run(run) for run in runs],
        "benchmarks": [_section(section) for section in sections],
        "skipped": skipped,
    }
    return json.dumps(_known(content), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _run(run: Run) -> dict[str, Any]:
    tasks = {name: task_provenance(task) for name, task in run.tasks.items()}
    fields = _fields(run, "name", "model", "harness", "time", "identity", "provenance")
    return {**fields, "tasks": tasks, "parts": [_part(part) for part in run.parts]}


def _part(part: Run) -> dict[str, Any]:
    fields = _fields(part, "model", "harness", "time", "provenance")
    return {**fields, "tasks": [*part.tasks, *part.other_tasks]}


def _fields(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _section(section: Section) -> dict[str, Any]:
    return {
        **_fields(section, "key", "title", "unit", "finding", "remarks"),
        "scores": [_with_ends(line) | {"beside": dict(line.beside)} for line in section.headlines],
        "differences": [asdict(pair) for pair in section.differences],
        "baselines": [_with_ends(baseline) for baseline in section.baselines],
        "reference": None if section.reference is None else asdict(section.reference),
        "slices": [_slice(part) for part in section.slices],
        "changes": [asdict(change) for change in section.changes],
        "tables": [_table(table) for table in section.tables],
        "figures": [_fields(figure, "key", "title", "caption") for figure in section.figures],
    }


def _slice(part: Slice) -> dict[str, Any]:
    return {"attribute": part.attribute, "groups": [_with_ends(group) for group in part.groups]}


def _table(table: Table) -> dict[str, Any]:
    return {
        **_fields(table, "key", "title", "role", "source", "notes"),
        "columns": [
            _fields(column, "key", "title", "decimals", "higher_is_better", "end_of")
            for column in table.columns
        ],
        "rows": [{"values": row.values, "own": row.is_ours} for row in table.rows],
    }


def _with_ends(scored: Headline | Group) -> dict[str, Any]:
    low, high = scored.interval or (None, None)
    return {name: value for name, value in asdict(scored).items() if name != "interval"} | {
        "low": low,
        "high": high,
    }


def _known(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _known(member) for key, member in value.items()}
    return [_known(member) for member in value] if isinstance(value, (list, tuple)) else value
