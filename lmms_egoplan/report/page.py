"""Write the report's page: an HTML file that opens from disk.

The gallery's details are in separate files.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.report.axes import Axis, axis_of
from lmms_egoplan.report.charts import svg_of
from lmms_egoplan.report.document import DEMO, DEMO_NOTE, AnswerKey, Headline, Item, Section, Slice
from lmms_egoplan.report.dot_plots import ModelSign, axis_of_plots, dot_plots, signs_of
from lmms_egoplan.report.gallery import Gallery, Progress, write_gallery
from lmms_egoplan.report.page_results import column_facts, published_rows
from lmms_egoplan.report.result_table import ResultTable, result_table
from lmms_egoplan.report.run import Run, task_provenance
from lmms_egoplan.report.strips import Pictures
from lmms_egoplan.report.summary import demo_runs, rank_text
from lmms_egoplan.report.tables import clean, condensed, known, share_notes, show
from lmms_egoplan.text import counted, percent

_TITLE = "Egocentric planning: runs and published results"
# Tables with at least this many columns are printed in landscape.
_WIDE = 9


def write_page(
    out: Path,
    sections: Sequence[Section],
    items: Sequence[Item],
    runs: Sequence[Run],
    skipped: Sequence[str],
    progress: Progress = lambda *_: None,
    pictures: Pictures = "all",
    images: Path | None = None,
) -> "Gallery | None":
    """Write ``index.html`` and the gallery's files to `out`.

    Return the gallery if there are questions.

    The page links to the files of tables and figures, which `write_files` writes.

    Args:
        skipped: skipped files with the reasons.
        progress: function called with the kind of work, the number of finished items and the total.
        pictures, images: see `write_gallery`.

    Raises:
        OSError: the folder is not writable.
    """
    gallery = None
    if items:
        models = [run.name for run in runs]
        gallery = write_gallery(out, items, progress, pictures, images, models)
    figures = {}
    drawn = [figure for section in sections for figure in section.figures]
    for done, figure in enumerate(drawn, 1):
        figures[figure.key] = svg_of(figure)
        progress("figures", done, len(drawn))
    results = result_table(sections)
    answered = {key for item in items for key in item.answers}
    page = template().render(
        title=_TITLE,
        sections=[for_readers(section) for section in sections],
        figures=figures,
        results=results,
        columns=column_facts(results) if results else [],
        standings=_standings(results),
        published=published_rows(results) if results else [],
        signs=_signs(sections, runs),
        decimals_of={
            section.key: section.headlines[0].decimals for section in sections if section.headlines
        },
        demo=demo_runs(sections),
        demo_note=DEMO_NOTE,
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        version=__version__,
        models=[(run.name, _parts_of(run)) for run in runs],
        skipped=skipped,
        gallery=gallery,
        answers_link=partial(_answers_link, answered),
    )
    write_whole(out / "index.html", page)
    return gallery


def _standings(results: ResultTable | None) -> set[str]:
    """Return the standings that occur in the table, for its legend."""
    rows = results.rows if results else ()
    cells = chain.from_iterable(row.cells for row in rows)
    return {cell.standing for cell in cells if cell is not None}


def _signs(sections: Sequence[Section], runs: Sequence[Run]) -> dict[str, ModelSign]:
    """Return the sign of each model by its name."""
    lines = [line for section in sections for line in section.headlines]
    return signs_of([run.name for run in runs] + [line.run for line in lines])


def _answers_link(answered: set[AnswerKey], section: Section, line: Headline) -> str | None:
    """Return the address of a score's questions in the gallery; None if there are none.

    Args:
        answered: the answers in the gallery.
        section: the section with the score.
        line: the score.
    """
    if (line.run, line.task) not in answered:
        return None
    return gallery_link(section.key, run=line.run, task=line.task)


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


def for_readers(section: Section) -> Section:
    """Return a section in which nothing that its tables share is repeated."""
    tables, notes = share_notes(map(condensed, section.tables))
    return replace(section, tables=tuple(tables), notes=notes)


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
        "axis_of_plots": axis_of_plots,
        "axis_of_slice": _slice_axis,
        "dot_plots": dot_plots,
        "gallery_link": gallery_link,
        "rank_text": rank_text,
    }
    environment.globals |= {"chance_of": _chance, "wide": _WIDE}
    environment.filters |= {
        function.__name__: function for function in (breakable, counted, known, percent, show)
    }
    environment.tests["has_key"] = lambda mapping, key: key in mapping
    environment.filters |= {
        # The page says at its top, once, that scores of the demo are meaningless.
        "without_demo_mark": lambda title: title.removesuffix(f" ({DEMO})"),
        "without_demo_note": lambda remarks: [
            remark for remark in remarks if not remark.startswith(DEMO_NOTE)
        ],
        "grouped": lambda groups: [
            (name, [*of_name]) for name, of_name in groupby(groups, lambda group: group.name)
        ],
        "diagnostics": lambda tables: [table for table in tables if table.role == "scores"],
        "published": lambda tables: [table for table in tables if table.role == "published"],
    }
    environment.globals["file"] = lambda name: Markup(loader.get_source(environment, name)[0])
    return environment.get_template("page.html.jinja")


def _parts_of(run: Run) -> list[dict[str, Any]]:
    """Return a description and the provenance of each results file of a model."""
    return [
        {
            "description": f"{part.model}, {part.harness}, {part.time}",
            "provenance": part.provenance,
            "tasks": {name: task_provenance(task) for name, task in part.tasks.items()},
        }
        for part in run.parts or (run,)
    ]
