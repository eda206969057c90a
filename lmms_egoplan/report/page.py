"""Build the report and its page: an HTML file that opens from disk.

The gallery's details are in separate files.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from joblib import cpu_count
from loguru import logger
from markupsafe import Markup, escape
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.files import write_whole
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.benchmarks import read_reports, report_class
from lmms_egoplan.report.charts import svg_of
from lmms_egoplan.report.document import (
    DEMO_NOTE,
    Group,
    Headline,
    Item,
    Section,
    ShownAnswer,
    Slice,
    json_of,
    write_files,
)
from lmms_egoplan.report.run import Run, task_provenance
from lmms_egoplan.report.runs import Runs, has_repeats, holds_lines, read_runs
from lmms_egoplan.report.samples import labelled_folders
from lmms_egoplan.report.scores import check
from lmms_egoplan.report.summary import Card, cards, demo_runs, rank_text, summary_table
from lmms_egoplan.report.tables import Table, clean, known, percent, show
from lmms_egoplan.text import counted

Pictures = Literal["all", "some", "none"]
"""The questions to draw pictures of, see `write_gallery`."""

SOME = 100
"""Number of questions of each benchmark that get pictures with ``some``."""

_TITLE = "Egocentric planning: runs and published results"
_WIDTH = re.compile(r"--width: (\d+)px")
# Tables with at least this many columns are printed in landscape.
_WIDE = 9
# Figures up to this width, in pixels, are placed side by side if there is room.
_BROAD = 760
_Value = TypeVar("_Value")
# Arguments: kind of work, number of finished items, total.
Progress = Callable[[str, int, int], None]

_CHUNK = 100
_FRAMES = 12
_FRAME_SIZE = (320, 200)
_ONLY_FRAME_SIZE = (720, 450)
_QUALITY = 78
# Most characters of a question in the list.
_QUESTION = 400
_LETTERS = {"right": "r", "wrong": "w", "partly": "p", "unscored": "u"}


@dataclass(frozen=True)
class Built:
    """A written report.

    counts: number of runs, benchmarks, tables, figures and questions, by name.
    skipped: skipped or missing inputs with the reason, one line each.
    pictures: see `Gallery`; "" without questions.
    """

    page: Path
    counts: Mapping[str, int]
    skipped: tuple[str, ...]
    sections: tuple[Section, ...]
    pictures: str


def build_report(
    folders: Sequence[Path],
    out: Path,
    names: Mapping[Path, str],
    benchmarks: Sequence[Benchmark],
    progress: Callable[[str, int, int], None],
    similarity: str | None = None,
    pictures: Pictures = "some",
) -> Built:
    """Write ``index.html``, ``report.json``, tables, figures and the gallery to `out`.

    Args:
        folders: paths for `read_runs`, `Inputs.judged` and `Inputs.labelled`.
        names: see `read_runs`.
        benchmarks: benchmarks in the order of their sections.
        progress: function called with the kind of work, the number of finished items and the total.
        similarity: see `Inputs`.
        pictures: see `write_gallery`.

    Raises:
        LmmsEgoplanError: a path has no run, or a run's samples contradict the harness's own scores.
        OSError: the folder is not writable.
    """
    judged = [path for path in folders if holds_lines(path) and has_repeats(path)]
    labelled = labelled_folders(folders)
    inputs = Inputs(similarity, tuple(judged), labelled)
    run_folders = [path for path in folders if path not in labelled]
    run_set = (
        read_runs(run_folders, names, benchmarks) if run_folders or not labelled else Runs((), ())
    )
    for done, run in enumerate(run_set.runs, 1):
        for task_run in run.tasks.values():
            check(run, task_run)
        progress("scores recomputed, runs", done, len(run_set.runs))
    sections: list[Section] = []
    items: list[Item] = []
    skipped = [*run_set.skipped]
    with_runs = 0
    for done, benchmark in enumerate(benchmarks, 1):
        new_sections, new_items, new_skipped, has_runs = _benchmark_sections(
            benchmark, run_set.runs, inputs
        )
        sections += new_sections
        items += new_items
        skipped += new_skipped
        with_runs += has_runs
        progress("benchmarks", done, len(benchmarks))
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    skipped += [
        f"{path}: skipped; reports cannot show labels of {name}"
        for path, name in labelled.items()
        if name not in benchmark_names
    ]
    summary = summary_table(sections)
    write_files(out, sections, progress, [summary] if summary else [])
    write_whole(out / "report.json", json_of(sections, run_set.runs, skipped, len(items)))
    gallery = write_page(out, sections, items, run_set.runs, skipped, progress, pictures)
    counts = {
        "runs": len(run_set.runs),
        "benchmarks": with_runs,
        "tables": sum(len(section.tables) for section in sections),
        "figures": sum(len(section.figures) for section in sections),
        "questions": len(items),
    }
    return Built(
        out / "index.html",
        counts,
        tuple(skipped),
        tuple(sections),
        gallery.pictures if gallery else "",
    )


def _benchmark_sections(
    benchmark: Benchmark, runs: Sequence[Run], inputs: Inputs
) -> tuple[list[Section], list[Item], list[str], bool]:
    """Return a benchmark's sections and questions, its skipped inputs, and true if it has runs."""
    sections: list[Section] = []
    items: list[Item] = []
    skipped: list[str] = []
    reports = list(read_reports(runs, [benchmark], inputs))
    for part, report in reports:
        section = report.section()
        if section is not None:
            sections.append(part.section(section))
            items += part.items(report.items())
    report_of = report_class(benchmark.name)
    label_folders = [path for path, name in inputs.labelled.items() if name == benchmark.name]
    if label_folders and not sections:
        section = report_of((), inputs).section()
        if section is not None:
            sections.append(section)
        else:
            reason = f"skipped; no table of {benchmark.title} uses its labels"
            skipped += [f"{path}: {reason}" for path in label_folders]
    table = report_of.inputs_table(inputs)
    if table is not None and sections:
        sections[0] = replace(sections[0], tables=(*sections[0].tables, table))
    elif table is not None:
        reason = f"{table.title.lower()} needs a run of {benchmark.title}"
        skipped += [f"{path}: skipped; {reason}" for path in inputs.judged]
    return sections, items, skipped, bool(reports)


def write_page(
    out: Path,
    sections: Sequence[Section],
    items: Sequence[Item],
    runs: Sequence[Run],
    skipped: Sequence[str],
    progress: Progress = lambda *_: None,
    pictures: Pictures = "all",
) -> "Gallery | None":
    """Write ``index.html`` and the gallery's files to `out`.

    Return the gallery if there are questions.

    The page links to the files of tables and figures, which `write_files` writes.

    Args:
        skipped: skipped files with the reasons.
        progress: function called with the kind of work, the number of finished items and the total.
        pictures: see `write_gallery`.

    Raises:
        OSError: the folder is not writable.
    """
    gallery = write_gallery(out, items, progress, pictures) if items else None
    figures = {}
    drawn = [figure for section in sections for figure in section.figures]
    for done, figure in enumerate(drawn, 1):
        svg = svg_of(figure)
        width = _WIDTH.search(svg)
        figures[figure.key] = {
            "svg": svg,
            "is_broad": width is not None and float(width[1]) > _BROAD,
        }
        progress("figures", done, len(drawn))
    page = template().render(
        title=_TITLE,
        sections=sections,
        figures=figures,
        cards=[(card, _card_axis(card)) for card in cards(sections)],
        decimals_of={
            section.key: section.headlines[0].decimals for section in sections if section.headlines
        },
        demo=demo_runs(sections),
        demo_note=DEMO_NOTE,
        provenance={run.name: (run.provenance, _task_provenances(run)) for run in runs},
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        version=__version__,
        runs=[(run.name, f"{run.model}, {run.harness}, {run.time}") for run in runs],
        skipped=skipped,
        gallery=gallery,
        answered=set(chain.from_iterable(item.answers for item in items)),
    )
    write_whole(out / "index.html", page)
    return gallery


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of scores in a chart, from `low` to `high` in round steps."""

    low: float
    high: float
    step: float

    @property
    def ticks(self) -> list[float]:
        """The round values from `low` to `high`."""
        return [
            self.low + self.step * number
            for number in range(round((self.high - self.low) / self.step) + 1)
        ]

    def at(self, value: float) -> str:
        """Return the position of a value, in per cent of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def width(self, interval: tuple[float, float]) -> str:
        """Return the width of an interval, in per cent of the whole."""
        return f"{100 * (interval[1] - interval[0]) / (self.high - self.low):.2f}%"


def axis_of(
    lines: Iterable[Headline | Group],
    top: float,
    further: Iterable[float | None] = (),
    *,
    from_zero: bool = False,
) -> Axis:
    """Return an axis with round ends that includes all scores and further values.

    It includes the scores' intervals, too.

    Noise must not look like a difference: unless it is the whole scale, the axis has at least a
    quarter of the scale and four times the width of the widest interval.

    Args:
        lines: scores in the chart.
        top: end of the scale, which begins at 0.
        further: other values in the chart, such as the score of random answers.
        from_zero: true for bars, which begin at 0.
    """
    scores = [*lines]
    intervals = [line.interval for line in scores if line.interval]
    values = [
        *(line.value for line in scores),
        *further,
        *(end for interval in intervals for end in interval),
    ]
    numbers = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    least = min(top, max([top / 4, *(4 * (end - start) for start, end in intervals)]))
    low = min([*numbers, 0.0] if from_zero else numbers)
    high = max(numbers)
    low = max(min(low, 0.0), min(low, (low + high - least) / 2, top - least))
    high = max(high, low + least)
    power: float = 10 ** math.floor(math.log10((high - low) / 4))
    step = power * next(
        factor for factor in (1, 2, 5, 10) if factor * power * 4 >= (high - low) * (1 - 1e-9)
    )
    return Axis(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step)


def _card_axis(card: Card) -> Axis:
    """Return the axis of all cards of the section."""
    section = card.section
    chances = [line.chance for line in section.headlines]
    return axis_of(
        section.headlines,
        section.top,
        [*chances, section.reference.value if section.reference else None],
    )


def _slice_axis(part: Slice, section: Section) -> Axis:
    return axis_of(part.groups, section.top, [_chance(section)], from_zero=True)


def _chance(section: Section) -> float | None:
    """Return the score of random answers; None if it is unknown or differs between tasks."""
    chances = {line.chance for line in section.headlines}
    return chances.pop() if len(chances) == 1 else None


def gallery_link(benchmark: str, **filters: str | None) -> str:
    """Return the address of the gallery with filters.

    A filter by a fact has the name ``fact:NAME``.
    """
    active = {
        clean(name): clean(value)
        for name, value in {"benchmark": benchmark, **filters}.items()
        if value is not None
    }
    return f"#gallery?{urlencode(active)}"


def _not_comparable(table: Table) -> bool:
    """Return true for a table of rows that are not comparable (`Table.parted`)."""
    return any(column.key == "why" for column in table.columns)


@lru_cache(maxsize=1)
def template() -> Template:
    """Return the page's template. Templates in its environment can extend it and use its macros."""

    def safe(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def breakable(text: str) -> Markup:
        """Allow line breaks after each ``_`` in a name."""
        return Markup(re.sub("(_+)", r"\1<wbr>", str(escape(clean(text)))))

    loader = PackageLoader("lmms_egoplan.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "axis_of_slice": _slice_axis,
        "gallery_link": gallery_link,
        "rank_text": rank_text,
    }
    environment.globals |= {"chance_of": _chance, "wide": _WIDE}
    environment.filters |= {
        function.__name__: function for function in (breakable, counted, known, percent, show)
    }
    environment.filters |= {
        "grouped": lambda groups: [
            (name, [*of_name]) for name, of_name in groupby(groups, lambda group: group.name)
        ],
        "diagnostics": lambda tables: [
            table for table in tables if table.role == "scores" and not _not_comparable(table)
        ],
        "published": lambda tables: [
            table for table in tables if table.role == "published" or _not_comparable(table)
        ],
    }
    environment.globals["file"] = lambda name: Markup(loader.get_source(environment, name)[0])
    return environment.get_template("page.html.jinja")


@dataclass(frozen=True)
class Gallery:
    """The page's data about the gallery.

    index: JSON of all questions for a script element, which page.js reads.
    pictured: number of questions with pictures.
    missing: number of questions without pictures, by the reason.
    """

    index: str
    pictured: int
    missing: Mapping[str, int]

    @property
    def pictures(self) -> str:
        """The numbers of questions with and without pictures, and the reasons, in words."""
        total = self.pictured + sum(self.missing.values())
        without = "".join(f"; {count:,} {reason}" for reason, count in self.missing.items())
        return f"{self.pictured:,} of {counted(total, 'questions')} have pictures{without}."


def write_gallery(
    out: Path, items: Sequence[Item], progress: Progress, pictures: Pictures = "all"
) -> Gallery:
    """Write ``gallery/`` under `out`.

    Picture strips of an earlier report are always reused.

    Args:
        pictures: questions to draw strips of. ``some`` are the first `SOME` of each benchmark, in
            the order of the gallery, after those on which runs disagree or that all runs get wrong
            (`_is_informative`).

    Raises:
        OSError: the folder is not writable.
    """
    folder = out / "gallery"
    missing = _write_strips(folder / "images", items, progress, pictures)
    runs = list(dict.fromkeys(name for item in items for name in item.answers))
    run_numbers = {name: number for number, name in enumerate(runs)}
    strips = [_strip(folder / "images", item) for item in items]
    chunks = range(0, len(items), _CHUNK)
    for number, start in enumerate(chunks):
        details = [
            _details(item, run_numbers, strips[start + i])
            for i, item in enumerate(items[start : start + _CHUNK])
        ]
        write_whole(folder / f"{number}.js", f"reportChunk({number},{script_json(details)});\n")
        progress("questions", min(start + _CHUNK, len(items)), len(items))
    delete(
        path
        for path in folder.glob("*.js")
        if path.stem.isdecimal() and int(path.stem) >= len(chunks)
    )
    pictured = sum(strip is not None for strip in strips)
    return Gallery(script_json(_index(items, runs, strips)), pictured, missing)


def script_json(value: Any) -> str:
    """Format JSON in ASCII that cannot end its script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def strip_name(item: Item) -> str:
    """Return the file name of a question's strip.

    Questions with the same key but other content have other names.
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", item.key).strip("_")[:80]
    identity = json.dumps(
        [item.key, item.question, item.choices, item.gold, item.references], sort_keys=True
    )
    return f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jpg"


def _index(
    items: Sequence[Item], runs: list[str], strips: list[dict[str, Any] | None]
) -> dict[str, Any]:
    benchmarks = _Numbered()
    facts = _Numbered()
    values: dict[str, _Numbered] = {}
    rows = []
    for item, strip in zip(items, strips, strict=True):
        coded = []
        for name, value in item.facts.items():
            coded += [facts[name], values.setdefault(name, _Numbered())[value]]
        question = clean(item.title or item.question)
        if len(question) > _QUESTION:
            question = f"{question[:_QUESTION]}\u2026"
        verdicts = "".join(
            _LETTERS[item.answers[run].verdict] if run in item.answers else "-" for run in runs
        )
        picture = strip["file"] if strip else 0
        gains = [
            [runs.index(x), *_rounded(y.gain)]
            for x, y in item.answers.items()
            if None not in y.gain
        ]
        rows.append(
            [clean(item.key), question, benchmarks[item.benchmark], coded, verdicts, picture, gains]
        )
    return {
        "chunk": _CHUNK,
        "runs": [clean(run) for run in runs],
        "benchmarks": benchmarks.names(),
        "facts": [[clean(name), values[name].names()] for name in facts],
        "items": rows,
    }


class _Numbered(dict[str, int]):
    """Number texts in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    def names(self) -> list[str]:
        """Return the texts in order, made printable."""
        return [clean(text) for text in self]


def _details(
    item: Item, run_numbers: dict[str, int], strip: dict[str, Any] | None
) -> dict[str, Any]:
    prompts = _distinct(item, lambda answer: answer.prompt)
    tasks = _distinct(item, lambda answer: answer.task)
    return {
        "identity": item.identity,
        "video": None if item.video is None else clean(item.video),
        "question": clean(item.question),
        "choices": [clean(choice) for choice in item.choices],
        "gold": item.gold,
        "references": [[clean(name), clean(text)] for name, text in item.references.items()],
        "prompts": [clean(prompt) for prompt in prompts],
        "tasks": tasks,
        "answers": [
            [run_numbers[name], _answer(answer, prompts, tasks)]
            for name, answer in item.answers.items()
        ],
        "strip": strip,
    }


def _task_provenances(run: Run) -> dict[str, Any]:
    return {name: task_provenance(task) for name, task in run.tasks.items()}


def _distinct(item: Item, value_of: Callable[[ShownAnswer], _Value | None]) -> list[_Value]:
    """Return the distinct values of the runs' answers, except None."""
    values = [value_of(answer) for answer in item.answers.values()]
    return list(dict.fromkeys(value for value in values if value is not None))


def _answer(
    answer: ShownAnswer, prompts: list[str], tasks: list[tuple[str, str | None]]
) -> dict[str, Any]:
    texts = {
        "text": answer.text,
        "rating": answer.rating,
        "judgement": answer.judgement,
        "reply": answer.reply,
    }
    data: dict[str, Any] = {name: clean(text) for name, text in texts.items() if text is not None}
    if answer.prompt is not None:
        data["prompt"] = prompts.index(answer.prompt)
    if answer.task is not None:
        data["task"] = tasks.index(answer.task)
    if answer.tokens is not None:
        data["tokens"] = list(answer.tokens)
    if answer.chosen is not None:
        data["chosen"] = int(answer.chosen)
    if answer.logprobs is not None:
        data["logprobs"] = _rounded(answer.logprobs)
    if None not in answer.gain:
        data["gain"] = _rounded(answer.gain)
    return data


def _rounded(numbers: Iterable[float | None]) -> list[float | None]:
    return [
        None if number is None or not math.isfinite(number) else round(float(number), 6)
        for number in numbers
    ]


def _write_strips(
    folder: Path, items: Sequence[Item], progress: Progress, pictures: Pictures
) -> dict[str, int]:
    """Write missing strips on all cores. Each core has the images of one question in memory.

    Returns:
        Number of questions without a strip, by the reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    available = [item for item in items if item.images is not None]
    if pictures == "all":
        chosen = available
    elif pictures == "some":
        chosen = _some(available)
    else:
        chosen = []
    missing = [item for item in available if _strip(folder, item) is None]
    wanted = {id(item) for item in chosen}
    todo = [item for item in missing if id(item) in wanted]
    unreadable = 0
    pool = ThreadPoolExecutor(cpu_count(), thread_name_prefix="strips")
    try:
        outcomes = pool.map(lambda item: _write_strip(folder / strip_name(item), item), todo)
        for done, is_written in enumerate(outcomes, 1):
            unreadable += not is_written
            progress("pictures", done, len(todo))
    finally:
        pool.shutdown(cancel_futures=True)
    counts = {
        "were not asked for (--pictures all draws them)": len(missing) - len(todo),
        "have an unreadable source": unreadable,
        "have no source: the prepared data or media are missing": len(items) - len(available),
    }
    return {reason: count for reason, count in counts.items() if count}


def _some(items: Iterable[Item]) -> list[Item]:
    """Return up to `SOME` questions of each benchmark, informative ones first."""
    of_benchmark: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: not _is_informative(item)):
        of_benchmark.setdefault(item.benchmark, []).append(item)
    return [item for of_one in of_benchmark.values() for item in of_one[:SOME]]


def _is_informative(item: Item) -> bool:
    """Return true if runs disagree on a question, or all get it wrong."""
    verdicts = {answer.verdict for answer in item.answers.values()} - {"unscored"}
    return len(verdicts) > 1 or verdicts == {"wrong"}


def _write_strip(path: Path, item: Item) -> bool:
    """Write a question's pictures side by side into one file.

    Its comment has their numbers and sizes.

    Returns:
        False if there are no pictures, or they cannot be read.
    """
    try:
        images = item.images() if item.images else []
        box = _FRAME_SIZE if len(images) > 1 else _ONLY_FRAME_SIZE
        frames = [_small(images[number - 1], box) for number in _chosen(len(images))]
    except Exception as error:  # An unreadable picture must not end the report.
        logger.debug(f"No pictures of {item.key}: {type(error).__name__}: {error}")
        return False
    if not frames:
        return False
    sizes = [
        [number, *frame.size] for number, frame in zip(_chosen(len(images)), frames, strict=True)
    ]
    strip = Image.new(
        "RGB", (sum(width for _, width, _ in sizes), max(height for *_, height in sizes)), "white"
    )
    offset = 0
    for frame in frames:
        strip.paste(frame, (offset, 0))
        offset += frame.width
    unfinished = path.with_suffix(".unfinished")
    strip.save(
        unfinished,
        "JPEG",
        quality=_QUALITY,
        comment=script_json({"of": len(images), "frames": sizes}),
    )
    unfinished.replace(path)
    return True


def _chosen(count: int) -> list[int]:
    """Return the numbers of evenly spaced images, from 1 to `count`."""
    return evenly_spaced(1, count, min(count, _FRAMES)) if count else []


def _small(frame: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Return an opaque copy that fits into `box`."""
    # Pillow decodes a file directly at a smaller size, which only works in place.
    if not isinstance(frame, ImageFile):
        frame = frame.copy()
    frame.thumbnail(box)
    if "A" not in frame.getbands() and "transparency" not in frame.info:
        return frame.convert("RGB")
    frame = frame.convert("RGBA")
    background = Image.new("RGBA", frame.size, "white")
    return Image.alpha_composite(background, frame).convert("RGB")


def _strip(folder: Path, item: Item) -> dict[str, Any] | None:
    """Return file and frames of a question's strip.

    None if it is missing or damaged, or the question has no images.
    """
    if item.images is None:
        return None
    path = folder / strip_name(item)
    try:
        with Image.open(path) as image:
            comment = json.loads(image.info["comment"])
            return {"file": path.name, "of": comment["of"], "frames": comment["frames"]}
    except (OSError, UnidentifiedImageError, KeyError, ValueError, TypeError):
        return None
