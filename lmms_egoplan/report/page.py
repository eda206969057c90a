"""The page: one HTML file that opens from disk, with everything but the gallery's details inside."""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from lmms_egoplan.report.document import Figure, Item, Section, Value, known
from lmms_egoplan.report.gallery import IMAGE_SECONDS, Progress, clean, write_gallery
from lmms_egoplan.storage import write_whole

if TYPE_CHECKING:
    from jinja2 import Template

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_DROPPED = ("metadata", "script", "style", "title")
_WIDTH = re.compile(r"--width: (\d+)px")
_REFERENCE = re.compile(r"url\(\s*#")
# From this many columns on a table is printed across the page.
_WIDE = 9
# Figures up to this width, in pixels, stand side by side where there is room.
_BROAD = 760
_P_VALUES = ("p_value", "p_holm")


def write_page(
    out: Path,
    title: str,
    sections: Sequence[Section],
    items: Sequence[Item],
    runs: Sequence[tuple[str, str]],
    skipped: Sequence[str],
    progress: Progress = lambda what, done, total: None,
    picture_seconds: float = IMAGE_SECONDS,
) -> None:
    """Write ``index.html`` and the gallery's files into `out`.

    The files of tables and figures, which the page links, are written by `writing`.

    Args:
        runs: name and description of each run: model, harness, time.
        skipped: what was not read, and why.
        progress: is told what is being done, how much of it is done, and how much there is.
        picture_seconds: see `write_gallery`.

    Raises:
        OSError: the folder cannot be written.
    """
    gallery = write_gallery(out, items, progress, picture_seconds) if items else None
    figures = {}
    drawn = [figure for section in sections for figure in section.figures]
    for done, figure in enumerate(drawn, 1):
        svg = svg_of(figure)
        figures[figure.key] = {"svg": svg, "is_broad": float(_WIDTH.search(svg)[1]) > _BROAD}
        progress("figures", done, len(drawn))
    page = _template().render(
        title=title,
        sections=sections,
        wide=_WIDE,
        figures=figures,
        summary=_summary(sections, [name for name, _ in runs]),
        runs=runs,
        skipped=skipped,
        gallery=gallery,
    )
    write_whole(out / "index.html", page)


def svg_of(figure: Figure) -> str:
    """A figure as an SVG element for the page: text as text, no scripts or styles, ids that no other figure has."""
    root = ElementTree.fromstring(figure.svg.encode())
    prefix = re.sub(r"[^A-Za-z0-9]+", "-", figure.key) + "-"
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in _DROPPED:
                parent.remove(child)
        _rename(parent, prefix)
    # Matplotlib measures in points; what the page may shrink it must not stretch.
    width = float(root.attrib.pop("width").removesuffix("pt")) * 4 / 3
    root.attrib.pop("height")
    root.attrib |= {
        "role": "img",
        "aria-label": clean(f"{figure.title}: {figure.description}"),
        "style": f"--width: {width:.0f}px",
    }
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _rename(element: ElementTree.Element, prefix: str) -> None:
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, prefix + value)
        elif name.rpartition("}")[2] == "href" and value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        elif "url(" in value:
            element.set(name, _REFERENCE.sub(f"url(#{prefix}", value))


def show(value: Value, decimals: int | None, key: str = "") -> str:
    """A value as it stands in a table, in the column with this key; an en dash for none and for NaN.

    No p-value is shown as 0 unless it is, and no number as a negative 0.
    """
    if known(value) is None:
        return "\u2013"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not decimals:
        return f"{value:,}".replace("-", "\u2212")
    text = f"{value:g}" if decimals is None else f"{value:.{decimals}f}"
    if float(text):
        return text.replace("-", "\u2212")
    return f"<{10**-decimals:.{decimals}f}" if key in _P_VALUES and value > 0 else text.removeprefix("-")


def _summary(sections: Sequence[Section], runs: Sequence[str]) -> dict[str, Any] | None:
    """The headlines as a table of runs by tasks; None without any."""
    headlines = [(section, headline) for section in sections for headline in section.headlines]
    columns = list(dict.fromkeys((section.key, line.task, line.metric) for section, line in headlines))
    if not columns:
        return None
    found = {(line.run, section.key, line.task, line.metric): line for section, line in headlines}
    chances = {}
    for column in columns:
        same = {show(line.chance, line.decimals) for key, line in found.items() if key[1:] == column}
        chances[column] = same.pop() if len(same) == 1 else None
    names = dict.fromkeys([*runs, *(line.run for _, line in headlines)])
    return {
        "groups": [
            (section, sum(column[0] == section.key for column in columns)) for section in sections if section.headlines
        ],
        "columns": [(task, metric, chances[key, task, metric]) for key, task, metric in columns],
        "rows": [(name, [(found.get((name, *column)), chances[column]) for column in columns]) for name in names],
    }


def percent(share: float) -> str:
    """A share with one decimal, 1 at most; "0 %" and "100 %" only where it is exactly none or all."""
    share = min(share, 1)
    if share in (0, 1):
        return f"{share:.0%}".replace("%", "\u202f%")
    return f"{min(max(100 * share, 0.1), 99.9):.1f}\u202f%"


@lru_cache(maxsize=1)
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    def safe(value: Any) -> Any:
        return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def breakable(text: str) -> Markup:
        """A name, which may go on in the next line after a ``_`` too, where the style lets it."""
        return Markup(re.sub("(_+)", r"\1<wbr>", str(escape(clean(text)))))

    loader = PackageLoader("lmms_egoplan.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=safe, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"breakable": breakable, "known": known, "percent": percent, "show": show}
    environment.globals["file"] = lambda name: Markup(loader.get_source(environment, name)[0])
    return environment.get_template("page.html.jinja")
