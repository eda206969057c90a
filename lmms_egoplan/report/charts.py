"""Draw the report's figures, and convert them to SVG for the page.

All figures are as wide as a column of a paper (`COLUMN`), and grow downwards. So their text is
legible both in a paper and on a narrow screen, where they need not shrink. A model has the same
colour and marker in all of them. Markers and hatches distinguish models without colour.
"""

import math
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.tables import clean

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure as Drawing

COLUMN = 3.35
"""Width of the report's figures in inches: a column of a paper, and 322 pixels of a page."""
SMALLEST = 7.0
"""Size of the smallest text in points: 9.3 pixels."""
TEXT = 7.5
"""Size of other text in points."""
# Okabe and Ito's colours without yellow, which is too light for lines on white.
_SHADES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")
# Only lines, since dots and rings add hundreds of kilobytes to a page.
_HATCHES = ("", "///", "xxx", "---", "\\\\\\", "+++", "|||", "//--")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", ":", "--", "-.")
INK = "0.15"
GRID = "0.88"
# Style of numbers and words next to points.
NOTE: dict[str, Any] = {"textcoords": "offset points", "size": SMALLEST, "color": INK}
# Width of a character relative to its size, and of a legend's sign in characters.
_CHARACTER = 0.6
_SIGN = 6
LINE_HEIGHT = 9.5
"""Height of a line of text, in points."""
# Characters per line of names in legends, and lines of a name.
_LEGEND_NAME = 38
_NAME_LINES = 2
_SLANT = 35
# Matplotlib omits labels with a leading underscore from legends. These are its default labels.
_NO_LABEL = re.compile(r"_(?:nolegend_|(?:child|container)\d+)")
_UNSEEN = "\u200b"
# Attributes with coordinates, and digits that are too small to see.
_COORDINATES = {"d", "x", "y", "transform"}
_DIGITS = re.compile(r"(\.\d\d)\d+")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DROPPED = ("metadata", "script", "style", "title")
_FRAME_INK = "#262626"
_THEMED = {_FRAME_INK: "text", "#000000": "text", "#e0e0e0": "line", "#ffffff": "surface"}
_ID = re.compile(r"#([\w-]+)")
_NO_ID = re.compile(r"[^A-Za-z0-9]+")
_REFERENCE = re.compile(r"url\(\s*#")


@dataclass(frozen=True)
class Look:
    """The signs of a series in figures.

    Attributes:
        colour: Colour of its model, such as ``#0072b2``.
        marker: Matplotlib's marker of its points.
        hatch: Matplotlib's hatch of its bars.
        line: Matplotlib's style of its lines.
        is_filled: False for further series of the same model.
    """

    colour: str
    marker: str
    hatch: str
    line: str
    is_filled: bool = True

    def of_points(self) -> dict[str, Any]:
        """Return matplotlib's arguments for points."""
        return {
            "marker": self.marker,
            "markersize": 5,
            "markerfacecolor": self.colour if self.is_filled else "white",
            "markeredgecolor": INK if self.is_filled else self.colour,
            "markeredgewidth": 0.6 if self.is_filled else 1.3,
        }


def model_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each model, such as ``#0072b2``, in every figure and on the page.

    Args:
        names: Names of all models of the report, in order. Repeated names count once.
    """
    return {name: shade(number) for number, name in enumerate(dict.fromkeys(names))}


def looks_of(series: Mapping[str, str | None], models: Sequence[str]) -> dict[str, Look]:
    """Return the look of each series of a figure.

    Args:
        series: Model of each series; None for a series without a model, such as chance or people.
        models: Names of all models of the report, in order. Models that are not among them come
            after them.

    >>> looks = looks_of({"B": "B", "B, blind": "B"}, ["A", "B"])
    >>> looks["B"].colour == looks["B, blind"].colour == model_colours(["A", "B"])["B"]
    True
    >>> looks["B"].is_filled, looks["B, blind"].is_filled
    (True, False)
    """
    drawn_models = [model for model in series.values() if model is not None]
    order = [*dict.fromkeys([*models, *drawn_models])]
    num_series: Counter[str | None] = Counter()
    looks: dict[str, Look] = {}
    for name, model in series.items():
        variant = num_series[model]
        num_series[model] += 1
        number = 3 * variant if model is None else order.index(model) + 3 * variant
        looks[name] = Look(
            colour=INK if model is None else shade(order.index(model)),
            marker=_MARKERS[number % len(_MARKERS)],
            hatch=hatch(number),
            line=line(variant),
            is_filled=variant == 0,
        )
    return looks


def new_figure(width_in: float, height_in: float) -> "tuple[Drawing, Axes]":
    """Make a figure with axes that leave room for labels."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(width_in, height_in), layout="constrained", facecolor="white")
    return figure, figure.add_subplot()


def shade(number: int) -> str:
    """Return a colour by its number. Colours repeat, but not with the same marker or `hatch`."""
    return _SHADES[number % len(_SHADES)]


def hatch(number: int) -> str:
    """Return a hatch of bars by its number. The first is empty."""
    return _HATCHES[number % len(_HATCHES)]


def line(number: int) -> str:
    """Return a style of lines by its number. The first is solid."""
    return _LINES[number % len(_LINES)]


def _width_of(text: str) -> float:
    """Return the width of a text in points, in matplotlib's own font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=["DejaVu Sans"], size=TEXT)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return max(1.0, float(width))


def wrapped(name: str, width: int, lines: int = _NAME_LINES) -> str:
    r"""Wrap a name for a figure. Omit the middle of a long one, since names differ at the ends.

    Args:
        name: The name. Characters that XML does not allow are replaced by spaces.
        width: Number of characters of usual width per line. Wide characters count more.
        lines: Number of lines.

    >>> wrapped("lmms-lab/a-model-with-a-long-name-checkpoint-2000", 14)
    'lmms-lab/a-mo…\nheckpoint-2000'
    """
    text = "".join(char if char.isprintable() else " " for char in name)
    usual = TEXT * _CHARACTER * len(text)
    width = max(4, int(width * min(1, usual / _width_of(text)))) if text else width
    if len(text) > lines * width:
        end = width if lines > 1 else (width - 1) // 2
        start = lines * width - end - 1
        text = f"{text[:start]}…{text[-end:]}"
        return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
    return textwrap.fill(text, width)


def finish(axes: "Axes", grid: Literal["x", "y"] = "y") -> None:
    """Style finished axes for the report: frame, grid, hatches and text sizes.

    A legend above the axes explains labelled parts; the figure grows to make room for it. Names of
    categories are slanted if they do not fit side by side. Texts are not parsed as formulas, since
    names may contain dollar signs.

    Args:
        axes: the axes.
        grid: the axis with values.
    """
    from matplotlib.text import Text

    figure = axes.get_figure(root=True)
    assert figure is not None
    width = figure.get_figwidth() * 72 / (TEXT * _CHARACTER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=TEXT, color=INK, labelcolor=INK)
    axes.tick_params(axis="x" if grid == "y" else "y", length=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=TEXT, color=INK)
    for patch in axes.patches:
        patch.set(edgecolor=INK, linewidth=0.7)
        patch.set_hatch_linewidth(0.6)
    if grid == "y":
        _slant(axes, width)
    _add_legend(axes, figure, width)
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_parse_math(False)


def _slant(axes: "Axes", width: float) -> None:
    """Slant the names of categories if they do not fit into a width in characters."""
    names = axes.get_xticklabels()
    longest = 0
    for name in names:
        for name_line in name.get_text().split("\n"):
            longest = max(longest, len(name_line))
    if len(names) * (longest + 1) > 0.85 * width:
        for name in names:
            name.set(rotation=_SLANT, horizontalalignment="right", rotation_mode="anchor")


def _add_legend(axes: "Axes", figure: "Drawing", width: float) -> None:
    """Add the legend above the axes; the figure grows to make room for it."""
    artists: list[Artist | Container] = [
        *axes.lines,
        *axes.patches,
        *axes.collections,
        *axes.containers,
    ]
    for artist in artists:
        label = str(artist.get_label())
        if label.startswith("_") and not _NO_LABEL.fullmatch(label):
            artist.set_label(_UNSEEN + label)
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    names = [wrapped(label.removeprefix(_UNSEEN), _LEGEND_NAME) for label in labels]
    names = [_UNSEEN + name if name.startswith("_") else name for name in names]
    longest = max(len(name_line) for name in names for name_line in name.split("\n"))
    columns = min(max(int(width // (longest + _SIGN)), 1), len(names))
    num_lines = sum(name.count("\n") + 1 for name in names)
    height = math.ceil(num_lines / columns) * LINE_HEIGHT + LINE_HEIGHT
    figure.set_figheight(figure.get_figheight() + height / 72)
    figure.legend(
        handles,
        names,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        handlelength=2.2,
        labelspacing=0.25,
        columnspacing=1.2,
        borderpad=0.1,
    )


def svg_of(figure: Figure) -> str:
    """Convert a figure to an SVG element for the page.

    Text stays text, ids are unique, and there are no scripts or styles.
    """
    root = ElementTree.fromstring(figure.svg.encode())
    prefix = _NO_ID.sub("-", figure.key) + "-"
    for parent in list(root.iter()):
        _drop_children(parent)
        _rename(parent, prefix)
    # Matplotlib measures in points. The page may shrink the figure, but must not enlarge it.
    width = float(root.attrib.pop("width").removesuffix("pt")) * 4 / 3
    root.attrib.pop("height")
    root.attrib |= {
        "role": "img",
        "aria-label": clean(f"{figure.title}: {figure.description}"),
        "style": f"--width: {width:.0f}px",
    }
    for element in root.iter():
        _theme(element, has_cells=figure.has_cells)
        for name in _COORDINATES.intersection(element.keys()):
            element.set(name, _DIGITS.sub(r"\1", element.get(name, "")))
        element.tail = (element.tail or "").strip()
        element.text = (element.text or "").strip()
    _theme_background(root, prefix)
    _drop_unused(root)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _drop_children(parent: ElementTree.Element) -> None:
    """Delete an element's comments, scripts, styles, titles and metadata."""
    for child in list(parent):
        is_element = isinstance(child.tag, str)
        if not is_element or child.tag.rpartition("}")[2] in _DROPPED:
            parent.remove(child)


def _theme_background(root: ElementTree.Element, prefix: str) -> None:
    """Replace the white background of the figure and of its axes by the page's."""
    for name in ("patch_1", "patch_2"):
        path = f".//{{{_SVG}}}g[@id='{prefix}{name}']/{{{_SVG}}}path"
        for background in root.iterfind(path):
            style = background.get("style", "")
            background.set("style", style.replace("#ffffff", "var(--surface)"))


def _drop_unused(root: ElementTree.Element) -> None:
    """Delete unused ids, and rotations by 0."""
    used_ids: set[str] = set()
    for element in root.iter():
        for name, value in element.items():
            if name != "id":
                used_ids.update(_ID.findall(value))
    for element in root.iter():
        if element.get("id") not in used_ids:
            element.attrib.pop("id", None)
        if element.get("transform", "").startswith("rotate(-0 "):
            element.attrib.pop("transform")


def _theme(element: ElementTree.Element, *, has_cells: bool) -> None:
    """Replace the colours of ink, grid and background by the page's theme.

    If the figure has cells of a colour scale, only the frame's colour is replaced.
    """
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
