"""The whole report, and its page: an HTML file that opens from disk, with the gallery's details in files beside it."""

import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from loguru import logger
from markupsafe import Markup, escape
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.benchmark import Inputs, ReportedBenchmark, read_reports
from lmms_egoplan.report.charts import svg_of
from lmms_egoplan.report.document import DEMO_NOTE, Item, Section, ShownAnswer, Slice, json_of, write_files
from lmms_egoplan.report.run import Run, task_provenance
from lmms_egoplan.report.runs import Runs, has_repeats, holds_lines, read_runs
from lmms_egoplan.report.samples import labelled_folders
from lmms_egoplan.report.scores import check
from lmms_egoplan.report.summary import Card, cards, demo_runs, rank_text, summary_table
from lmms_egoplan.report.tables import Table, clean, counted, known, percent, show

_TITLE = "Egocentric planning: runs beside the published results"
_WIDTH = re.compile(r"--width: (\d+)px")
# Tables with at least so many columns are printed in landscape.
_WIDE = 9
# Seconds for the whole report; pictures get the remaining time, at least the second number.
_SECONDS, _LEAST_FOR_PICTURES = 50.0, 5.0
# Figures up to this width, in pixels, are placed side by side if there is room.
_BROAD = 760
# Called with the kind of work, the finished part and the total.
Progress = Callable[[str, int, int], None]
# Time for pictures in one report; finished strips are reused, so the next report continues.
IMAGE_SECONDS = 30.0

_CHUNK = 100
_THREADS = 2
_FRAMES = 12
_FRAME_SIZE, _ONLY_FRAME_SIZE = (320, 200), (720, 450)
_QUALITY = 78
# Characters of a question in the list.
_QUESTION = 400
_LETTERS = {"right": "r", "wrong": "w", "partly": "p", "unscored": "u"}


@dataclass(frozen=True)
class Built:
    """A written report.

    counts: of its parts, by name.
    skipped: ignored or missing inputs, and why; a line each.
    """

    page: Path
    counts: Mapping[str, int]
    skipped: tuple[str, ...]
    sections: tuple[Section, ...]


def build_report(
    folders: Sequence[Path],
    out: Path,
    names: Mapping[Path, str],
    benchmarks: Sequence[ReportedBenchmark],
    progress: Callable[[str, int, int], None],
    similarity: str | None = None,
) -> Built:
    """Write ``index.html`` into `out`, with ``report.json``, tables, figures and the gallery next to it.

    Args:
        folders: see `read_runs`; and `Inputs.judged` and `Inputs.labelled`.
        names: see `read_runs`.
        benchmarks: in the order of their sections.
        progress: called with the kind of work, the finished part and the total.
        similarity: see `Inputs`.

    Raises:
        LmmsEgoplanError: a path has no run, or a run's samples contradict the harness's own scores.
        OSError: the folder cannot be written.
    """
    started = time.monotonic()
    judged = [path for path in folders if holds_lines(path) and has_repeats(path)]
    labelled = labelled_folders(folders)
    inputs = Inputs(similarity, tuple(judged), labelled)
    with_runs_in = [path for path in folders if path not in labelled]
    read = read_runs(with_runs_in, names, benchmarks) if with_runs_in or not labelled else Runs((), ())
    for done, run in enumerate(read.runs, 1):
        for task_run in run.tasks.values():
            check(run, task_run)
        progress("scores recomputed, runs", done, len(read.runs))
    sections: list[Section] = []
    items: list[Item] = []
    skipped = [*read.skipped]
    with_runs = 0
    for done, benchmark in enumerate(benchmarks, 1):
        own, own_items, lines, has_runs = _benchmark_sections(benchmark, read.runs, inputs)
        sections += own
        items += own_items
        skipped += lines
        with_runs += has_runs
        progress("benchmarks", done, len(benchmarks))
    known_names = [benchmark.name for benchmark in benchmarks]
    skipped += [
        f"{path}: left out, no report shows labels of {name}"
        for path, name in labelled.items()
        if name not in known_names
    ]
    summary = summary_table(sections)
    write_files(out, sections, progress, [summary] if summary else [])
    write_whole(out / "report.json", json_of(sections, read.runs, skipped, len(items)))
    remaining = _SECONDS - (time.monotonic() - started)
    picture_seconds = min(IMAGE_SECONDS, max(_LEAST_FOR_PICTURES, remaining))
    write_page(out, sections, items, read.runs, skipped, progress, picture_seconds)
    counts = {
        "runs": len(read.runs),
        "benchmarks": with_runs,
        "tables": sum(len(section.tables) for section in sections),
        "figures": sum(len(section.figures) for section in sections),
        "questions": len(items),
    }
    return Built(out / "index.html", counts, tuple(skipped), tuple(sections))


def _benchmark_sections(
    benchmark: ReportedBenchmark, runs: Sequence[Run], inputs: Inputs
) -> tuple[list[Section], list[Item], list[str], bool]:
    """Return a benchmark's sections and questions, the inputs that it does not show, and true if it has runs."""
    sections: list[Section] = []
    items: list[Item] = []
    skipped: list[str] = []
    reports = list(read_reports(runs, [benchmark], inputs))
    for part, report in reports:
        section = report.section()
        if section is not None:
            sections.append(part.section(section))
            items += part.items(report.items())
    report_of = benchmark.load_report()
    label_folders = [path for path, name in inputs.labelled.items() if name == benchmark.name]
    if label_folders and not sections:
        section = report_of((), inputs).section()
        if section is not None:
            sections.append(section)
        else:
            unused = f"left out, its labels fill no table of {benchmark.title}"
            skipped += [f"{path}: {unused}" for path in label_folders]
    table = report_of.inputs_table(inputs)
    if table is not None and sections:
        sections[0] = replace(sections[0], tables=(*sections[0].tables, table))
    elif table is not None:
        beside = f"no run of {benchmark.title} is there to show {table.title.lower()} beside"
        skipped += [f"{path}: left out, {beside}" for path in inputs.judged]
    return sections, items, skipped, bool(reports)


def write_page(
    out: Path,
    sections: Sequence[Section],
    items: Sequence[Item],
    runs: Sequence[Run],
    skipped: Sequence[str],
    progress: Progress = lambda *_: None,
    picture_seconds: float = IMAGE_SECONDS,
) -> None:
    """Write ``index.html`` and the gallery's files into `out`.

    The page links the files of tables and figures, which `write_files` writes.

    Args:
        skipped: ignored files with the reasons.
        progress: called with the kind of work, the finished part and the total.
        picture_seconds: see `write_gallery`.

    Raises:
        OSError: the folder cannot be written.
    """
    gallery = write_gallery(out, items, progress, picture_seconds) if items else None
    figures = {}
    drawn = [figure for section in sections for figure in section.figures]
    for done, figure in enumerate(drawn, 1):
        svg = svg_of(figure)
        width = _WIDTH.search(svg)
        figures[figure.key] = {"svg": svg, "is_broad": width is not None and float(width[1]) > _BROAD}
        progress("figures", done, len(drawn))
    page = _template().render(
        title=_TITLE,
        sections=sections,
        wide=_WIDE,
        figures=figures,
        cards=[(card, _card_axis(card)) for card in cards(sections)],
        places_of={section.key: section.headlines[0].decimals for section in sections if section.headlines},
        demo=demo_runs(sections),
        demo_note=DEMO_NOTE,
        provenance={
            run.name: (run.provenance, {name: task_provenance(x) for name, x in run.tasks.items()}) for run in runs
        },
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        version=__version__,
        runs=[(run.name, f"{run.model}, {run.harness}, {run.time}") for run in runs],
        skipped=skipped,
        gallery=gallery,
        answered={run for item in items for run in item.answers},
    )
    write_whole(out / "index.html", page)


@dataclass(frozen=True)
class Axis:
    """The range of scores in a chart."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Return the position of a value, in per cent of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def width(self, interval: tuple[float, float]) -> str:
        """Return the width of an interval, in per cent of the whole."""
        return f"{100 * (interval[1] - interval[0]) / (self.high - self.low):.2f}%"


def axis_of(values: Iterable[float | None], top: float, *, from_zero: bool = False) -> Axis:
    """Return an axis with all values and round ends, within 0 and `top`."""
    known = [value for value in values if value is not None] or [0.0]
    low, high = (0.0 if from_zero else min(known)), max(known)
    room = 0.08 * (high - low) or 0.1 * top
    step = 10 ** math.floor(math.log10(max(high - low, top / 100) + room)) / 2
    start = max(0.0, math.floor((low - room) / step) * step) if not from_zero else 0.0
    end = math.ceil((high + room) / step) * step
    return Axis(start, max(min(end, top) if max(known) <= top else end, start + step))


def _card_axis(card: Card) -> Axis:
    ends = [end for line in card.lines for end in (line.value, *(line.interval or ()))]
    reference = card.section.reference if card.compares else None
    return axis_of([*ends, card.chance, reference.value if reference else None], card.section.top)


def _slice_axis(part: Slice, section: Section) -> Axis:
    ends = [end for group in part.groups for end in (group.value, *(group.interval or ()))]
    return axis_of(ends, section.top, from_zero=True)


def gallery_link(benchmark: str, **filters: str | None) -> str:
    """Return the address of the gallery with some filters; those of facts are ``fact:NAME``."""
    active = {name: value for name, value in {"benchmark": benchmark, **filters}.items() if value is not None}
    return f"#gallery?{urlencode(active)}"


def _is_apart(table: Table) -> bool:
    """Return true for the rows of a published table that are not comparable (`Table.parted`)."""
    return any(column.key == "why" for column in table.columns)


@lru_cache(maxsize=1)
def _template() -> Template:
    def safe(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def breakable(text: str) -> Markup:
        """Return a name that may also break after a ``_``."""
        return Markup(re.sub("(_+)", r"\1<wbr>", str(escape(clean(text)))))

    loader = PackageLoader("lmms_egoplan.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=safe, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {"axis_of_slice": _slice_axis, "gallery_link": gallery_link, "rank_text": rank_text}
    environment.filters |= {function.__name__: function for function in (breakable, counted, known, percent, show)}
    environment.filters |= {
        "grouped": lambda groups: [(name, [*of_name]) for name, of_name in groupby(groups, lambda group: group.name)],
        "diagnostics": lambda tables: [table for table in tables if table.role == "scores" and not _is_apart(table)],
        "published": lambda tables: [table for table in tables if table.role == "published" or _is_apart(table)],
    }
    environment.globals["file"] = lambda name: Markup(loader.get_source(environment, name)[0])
    return environment.get_template("page.html.jinja")


@dataclass(frozen=True)
class Gallery:
    """The page's data about the gallery.

    index: JSON of all questions for a script element; page.js reads it.
    questions: their number.
    pictured: questions with pictures; waiting, unreadable, absent: questions without, because time was up, they could
        not be read, or they are not available.
    """

    index: str
    questions: int
    pictured: int
    waiting: int
    unreadable: int
    absent: int


def write_gallery(
    out: Path, items: Sequence[Item], progress: Progress, picture_seconds: float = IMAGE_SECONDS
) -> Gallery:
    """Write ``gallery/`` under `out`.

    Strips of an earlier report are reused. Questions on which runs disagree, or that all get wrong, come first.

    Args:
        picture_seconds: time for reading and writing pictures.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = out / "gallery"
    fates = _write_strips(folder / "images", items, progress, picture_seconds)
    runs = list(dict.fromkeys(name for item in items for name in item.answers))
    places = {name: place for place, name in enumerate(runs)}
    strips = [_strip(folder / "images", item) for item in items]
    chunks = range(0, len(items), _CHUNK)
    for number, start in enumerate(chunks):
        details = [_details(item, places, strips[start + i]) for i, item in enumerate(items[start : start + _CHUNK])]
        write_whole(folder / f"{number}.js", f"reportChunk({number},{script_json(details)});\n")
        progress("questions", min(start + _CHUNK, len(items)), len(items))
    delete(path for path in folder.glob("*.js") if path.stem.isdecimal() and int(path.stem) >= len(chunks))
    pictured = sum(strip is not None for strip in strips)
    return Gallery(
        script_json(_index(items, runs, strips)), len(items), pictured, fates["late"], fates["damaged"], fates["absent"]
    )


def script_json(value: Any) -> str:
    """Format JSON in ASCII that cannot end its script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def strip_name(item: Item) -> str:
    """Return the file name of a question's strip; it differs for other data with the same key."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", item.key).strip("_")[:80]
    identity = json.dumps([item.key, item.question, item.choices, item.gold, item.references], sort_keys=True)
    return f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jpg"


def _index(items: Sequence[Item], runs: list[str], strips: list[dict[str, Any] | None]) -> dict[str, Any]:
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
        verdicts = "".join(_LETTERS[item.answers[run].verdict] if run in item.answers else "-" for run in runs)
        picture = strip["file"] if strip else 0
        rows.append([clean(item.key), question, benchmarks[item.benchmark], coded, verdicts, picture])
    return {
        "chunk": _CHUNK,
        "runs": [clean(run) for run in runs],
        "benchmarks": benchmarks.names(),
        "facts": [[clean(name), values[name].names()] for name in facts],
        "items": rows,
    }


class _Numbered(dict[str, int]):
    """Numbers of texts, in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    def names(self) -> list[str]:
        """Return the texts in order, printable."""
        return [clean(text) for text in self]


def _details(item: Item, places: dict[str, int], strip: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "question": clean(item.question),
        "choices": [clean(choice) for choice in item.choices],
        "gold": item.gold,
        "references": [[clean(name), clean(text)] for name, text in item.references.items()],
        "prompts": [clean(prompt) for prompt in _prompts(item)],
        "answers": [[places[name], _answer(answer, _prompts(item))] for name, answer in item.answers.items()],
        "strip": strip,
    }


def _prompts(item: Item) -> list[str]:
    """Return the different prompts of the runs."""
    return list(dict.fromkeys(answer.prompt for answer in item.answers.values() if answer.prompt is not None))


def _answer(answer: ShownAnswer, prompts: list[str]) -> dict[str, Any]:
    texts = {"text": answer.text, "rating": answer.rating, "judgement": answer.judgement, "reply": answer.reply}
    shown: dict[str, Any] = {name: clean(text) for name, text in texts.items() if text is not None}
    if answer.prompt is not None:
        shown["prompt"] = prompts.index(answer.prompt)
    if answer.tokens is not None:
        shown["tokens"] = list(answer.tokens)
    if answer.chosen is not None:
        shown["chosen"] = int(answer.chosen)
    if answer.logprobs is not None:
        shown["logprobs"] = [None if x is None or not math.isfinite(x) else round(float(x), 6) for x in answer.logprobs]
    return shown


def _write_strips(folder: Path, items: Sequence[Item], progress: Progress, seconds: float) -> Counter[str]:
    """Write missing strips while there is time; count those that were late, damaged or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    without = [item for item in items if _strip(folder, item) is None]
    todo = sorted((item for item in without if item.images is not None), key=lambda item: not _is_telling(item))
    fates = Counter(absent=len(without) - len(todo))
    deadline = time.monotonic() + seconds

    def write(item: Item) -> str:
        if time.monotonic() > deadline:
            return "late"
        return "written" if _write_strip(folder / strip_name(item), item) else "damaged"

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="strips") as pool:
        for fate in pool.map(write, todo):
            fates[fate] += 1
            if fate != "late":
                progress("pictures", fates["written"] + fates["damaged"], len(todo))
    return fates


def _is_telling(item: Item) -> bool:
    verdicts = {answer.verdict for answer in item.answers.values()} - {"unscored"}
    return len(verdicts) > 1 or verdicts == {"wrong"}


def _write_strip(path: Path, item: Item) -> bool:
    """Write a question's pictures side by side, with their numbers and sizes in the comment; False without any."""
    try:
        images = item.images() if item.images else []
        box = _FRAME_SIZE if len(images) > 1 else _ONLY_FRAME_SIZE
        frames = [_small(images[number - 1], box) for number in _chosen(len(images))]
    except Exception as error:  # no error of a picture's reader may end the report
        logger.debug(f"No pictures of {item.key}: {type(error).__name__}: {error}")
        return False
    if not frames:
        return False
    sizes = [[number, *frame.size] for number, frame in zip(_chosen(len(images)), frames, strict=True)]
    strip = Image.new("RGB", (sum(width for _, width, _ in sizes), max(height for *_, height in sizes)), "white")
    left = 0
    for frame in frames:
        strip.paste(frame, (left, 0))
        left += frame.width
    unfinished = path.with_suffix(".unfinished")
    strip.save(unfinished, "JPEG", quality=_QUALITY, comment=script_json({"of": len(images), "frames": sizes}))
    unfinished.replace(path)
    return True


def _chosen(count: int) -> list[int]:
    """Choose some of `count` images, by number from 1."""
    return evenly_spaced(1, count, min(count, _FRAMES)) if count else []


def _small(frame: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Make an opaque copy that fits into `box`."""
    # An undecoded file is decoded at a fraction of its size, which only works in place.
    if not isinstance(frame, ImageFile):
        frame = frame.copy()
    frame.thumbnail(box)
    if "A" not in frame.getbands() and "transparency" not in frame.info:
        return frame.convert("RGB")
    frame = frame.convert("RGBA")
    ground = Image.new("RGBA", frame.size, "white")
    return Image.alpha_composite(ground, frame).convert("RGB")


def _strip(folder: Path, item: Item) -> dict[str, Any] | None:
    """Return file and frames of a question's strip; None if it is missing or damaged, or there are no images."""
    if item.images is None:
        return None
    path = folder / strip_name(item)
    try:
        with Image.open(path) as image:
            written = json.loads(image.info["comment"])
            return {"file": path.name, "of": written["of"], "frames": written["frames"]}
    except (OSError, UnidentifiedImageError, KeyError, ValueError, TypeError):
        return None
