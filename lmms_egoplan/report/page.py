"""The whole report, and its page: an HTML file that opens from disk, with all but the gallery's details inside."""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.report.benchmark import Inputs, ReportedBenchmark, read_reports
from lmms_egoplan.report.document import DEMO_NOTE, Figure, Item, Section, Slice
from lmms_egoplan.report.gallery import IMAGE_SECONDS, Progress, write_gallery
from lmms_egoplan.report.labelled import labelled_folders
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.run import Run, Runs
from lmms_egoplan.report.runs import has_repeats, holds_lines, read_runs
from lmms_egoplan.report.scores import check
from lmms_egoplan.report.summary import Card, cards, demo_runs, rank_text, summary_table
from lmms_egoplan.report.tables import Table, clean, counted, known, percent, show
from lmms_egoplan.report.writing import json_of, write_files

_TITLE = "Egocentric planning: runs beside the published results"
# Attributes with coordinates, and their invisible digits.
_PLACES = {"d", "x", "y", "transform"}
_DIGITS = re.compile(r"(\.\d\d)\d+")
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_DROPPED = ("metadata", "script", "style", "title")
_WIDTH = re.compile(r"--width: (\d+)px")
_FRAME_INK = "#262626"
_THEMED = {_FRAME_INK: "text", "#000000": "text", "#e0e0e0": "line", "#ffffff": "surface"}
_ID = re.compile(r"#([\w-]+)")
_REFERENCE = re.compile(r"url\(\s*#")
# Tables with at least so many columns are printed in landscape.
_WIDE = 9
# Seconds for the whole report; pictures get the remaining time, at least the second number.
_SECONDS, _LEAST_FOR_PICTURES = 50.0, 5.0
# Figures up to this width, in pixels, are placed side by side if there is room.
_BROAD = 760


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

    The page links the files of tables and figures, which `writing` writes.

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


def svg_of(figure: Figure) -> str:
    """Convert a figure to an SVG element for the page: text as text, no scripts or styles, unique ids."""
    root = ElementTree.fromstring(figure.svg.encode())
    prefix = re.sub(r"[^A-Za-z0-9]+", "-", figure.key) + "-"
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in _DROPPED:
                parent.remove(child)
        _rename(parent, prefix)
    # Matplotlib measures in points; the page may shrink the figure, but must not stretch it.
    width = float(root.attrib.pop("width").removesuffix("pt")) * 4 / 3
    root.attrib.pop("height")
    root.attrib |= {
        "role": "img",
        "aria-label": clean(f"{figure.title}: {figure.description}"),
        "style": f"--width: {width:.0f}px",
    }
    for element in root.iter():
        _theme(element, has_cells=figure.has_cells)
        for name in _PLACES.intersection(element.keys()):
            element.set(name, _DIGITS.sub(r"\1", element.get(name, "")))
        element.tail = (element.tail or "").strip()
        element.text = (element.text or "").strip()
    for name in ("patch_1", "patch_2"):
        for ground in root.iterfind(f".//{{{_SVG}}}g[@id='{prefix}{name}']/{{{_SVG}}}path"):
            ground.set("style", ground.get("style", "").replace("#ffffff", "var(--surface)"))
    _drop_unused(root)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _drop_unused(root: ElementTree.Element) -> None:
    """Delete unused ids, and rotations by 0."""
    values = [value for element in root.iter() for name, value in element.items() if name != "id"]
    used = {name for value in values for name in _ID.findall(value)}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if element.get("transform", "").startswith("rotate(-0 "):
            element.attrib.pop("transform")


def _theme(element: ElementTree.Element, *, has_cells: bool) -> None:
    """Give ink, grid and ground the colours of the page's theme; with cells of a colour scale, only the frame."""
    style = element.get("style")
    if style is None:
        return
    for colour, variable in _THEMED.items():
        if not has_cells or colour == _FRAME_INK:
            style = style.replace(colour, f"var(--{variable})")
    element.set("style", style)


def _rename(element: ElementTree.Element, prefix: str) -> None:
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, prefix + value)
        elif name.rpartition("}")[2] == "href" and value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        elif "url(" in value:
            element.set(name, _REFERENCE.sub(f"url(#{prefix}", value))


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
