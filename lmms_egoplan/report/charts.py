"""Draw the report's figures, and convert them to SVG for the page.

Signs distinguish runs without colour.
"""

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.tables import clean, show
from lmms_egoplan.stats.means import Mean

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure as Drawing

# Okabe and Ito's colours without yellow, which is too light for lines on white.
_SHADES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")
# Only lines, since dots and rings add hundreds of kilobytes to a page.
_HATCHES = ("", "///", "xxx", "---", "\\\\\\", "+++", "|||", "//--")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":")
_INK = "0.15"
_GRID = "0.88"
# Style of numbers and words next to points.
NOTE: dict[str, Any] = {"textcoords": "offset points", "size": 8, "color": _INK}
_POINTS = 9.0
_SMALL = 8.5
# Width of a character relative to its size, and of a legend's sign in characters.
_CHARACTER = 0.56
_SIGN = 6
# Height of a legend's line, in inches.
_LEGEND_LINE = 0.19
# Figures with at most this many bars have values above them.
_MOST_VALUES = 24
_SLANT = 30
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


def new_figure(width_in: float, height_in: float) -> "tuple[Drawing, Axes]":
    """Make a figure with axes that leave room for labels.

    A width of 7.2 inches fills the page's column.
    """
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(width_in, height_in), layout="constrained", facecolor="white")
    return figure, figure.add_subplot()


def shade(number: int) -> str:
    """Return the colour of a run by its number.

    Colours repeat, but not with the same `hatch` or `marker`.
    """
    return _SHADES[number % len(_SHADES)]


def model_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each model, such as ``#0072b2``, in every figure and on the page.

    Args:
        names: Names of all models of the report, in order. Repeated names count once.
    """
    return {name: shade(number) for number, name in enumerate(dict.fromkeys(names))}


def hatch(number: int) -> str:
    """Return the hatch of a run's bars. The first run has none."""
    return _HATCHES[number % len(_HATCHES)]


def marker(number: int) -> str:
    """Return the marker of a run's points."""
    return _MARKERS[number % len(_MARKERS)]


def line(number: int) -> str:
    """Return the style of a run's lines."""
    return _LINES[number % len(_LINES)]


def draw_bars(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean]],
    label: str,
    top: float,
    reference: tuple[str, Sequence[float]] | None = None,
    decimals: int = 0,
) -> "Drawing":
    """Draw a bar with its interval for each run in each group, and its value if there is room.

    Args:
        groups: names of the groups.
        means: for each run, the means in the groups.
        label: label of the vertical axis.
        top: end of the vertical axis, which begins at 0, unless a value or an interval is beyond
            it.
        reference: name and values of dashed lines, one in each group.
        decimals: number of decimals of the values.
    """
    figure, axes = new_figure(7.2, 3.5)
    has_values = len(groups) * len(means) <= _MOST_VALUES
    width = 0.8 / len(means)
    for number, (name, means_of_run) in enumerate(means.items()):
        middles = [group - 0.4 + width * (number + 0.5) for group in range(len(groups))]
        heights = [mean.value or 0 for mean in means_of_run]
        axes.bar(middles, heights, width, label=name, color=shade(number), hatch=hatch(number))
        for middle, mean in zip(middles, means_of_run, strict=True):
            if mean.interval:
                axes.vlines(middle, *mean.interval, color="black", linewidth=1, zorder=3)
            if mean.value is None:
                _write_missing(axes, middle, 0.01 * top)
            elif has_values:
                _write_value(axes, middle, mean, decimals)
    if reference:
        _draw_reference(axes, *reference)
    axes.set(xlim=(-0.6, len(groups) - 0.4), ylim=_limits(means, top), ylabel=label)
    axes.set_xticks(range(len(groups)), groups)
    finish(axes)
    return figure


def _write_missing(axes: "Axes", x: float, y: float) -> None:
    """Write "n/a" where a bar would start."""
    axes.text(x, y, "n/a", rotation=90, ha="center", va="bottom", fontsize=7)


def _write_value(axes: "Axes", x: float, mean: Mean, decimals: int) -> None:
    """Write the value of a mean above its bar and its interval."""
    end = mean.interval[1] if mean.interval else mean.value
    axes.annotate(show(mean.value, decimals), (x, end), (0, 1), ha="center", va="bottom", **NOTE)


def _draw_reference(axes: "Axes", name: str, values: Sequence[float]) -> None:
    """Draw a dashed line in each group. Only the first one has a label, for the legend."""
    for group, value in enumerate(values):
        ends = (group - 0.44, group + 0.44)
        axes.hlines(value, *ends, color="white", linewidth=3)
        axes.hlines(
            value,
            *ends,
            color="black",
            linewidth=1.5,
            linestyle="--",
            label=name if group == 0 else "",
        )


def draw_lines(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Mean]],
    label: str,
    groups_label: str,
    top: float,
    looks: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    chance: float | None = None,
) -> "Drawing":
    """Draw one line per run over the groups, with intervals at its points.

    Args:
        groups: names of the groups.
        means: for each run, the means in the groups.
        label, groups_label: labels of the vertical and the horizontal axis.
        top: least upper end of the vertical axis, see `draw_bars`.
        looks: matplotlib's arguments for a run's line, instead of those by the run's number.
        chance: score of random answers, marked by a horizontal line.
    """
    figure, axes = new_figure(7.2, 3.4)
    if chance is not None:
        _draw_chance(axes, chance)
    # Runs stand side by side, so that their intervals do not overlap.
    spacing = min(0.08, 0.5 / len(means))
    middle = (len(means) - 1) / 2
    for number, (name, means_of_run) in enumerate(means.items()):
        look = {"label": name, **_line_look(number), **looks.get(name, {})}
        _draw_line(axes, means_of_run, shift=spacing * (number - middle), look=look)
    axes.set_xticks(range(len(groups)), groups)
    axes.set(
        xlim=(-0.5, len(groups) - 0.5),
        ylim=_limits(means, top),
        xlabel=groups_label,
        ylabel=label,
    )
    finish(axes)
    return figure


def _draw_chance(axes: "Axes", chance: float) -> None:
    """Draw a horizontal line at the score of random answers, with its name at the right end."""
    axes.axhline(chance, color=_INK, linewidth=0.8)
    axes.annotate(
        "chance", (1, chance), (3, 0), xycoords=("axes fraction", "data"), va="center", **NOTE
    )


def _line_look(number: int) -> dict[str, Any]:
    """Return matplotlib's arguments for a run's line by the run's number."""
    return {
        "color": shade(number),
        "marker": marker(number),
        "linestyle": line(number),
        "markersize": 5,
        "clip_on": False,
    }


def _draw_line(
    axes: "Axes", means: Sequence[Mean], *, shift: float, look: Mapping[str, Any]
) -> None:
    """Draw a run's line through its means, with their intervals.

    Args:
        axes: axes of the figure.
        means: the means in the groups. Those without a value are skipped.
        shift: distance of the points from the middles of the groups, to separate the runs.
        look: matplotlib's arguments for the line.
    """
    positions = []
    values = []
    for group, mean in enumerate(means):
        if mean.value is not None:
            positions.append(group + shift)
            values.append(mean.value)
    axes.plot(positions, values, **look)
    for group, mean in enumerate(means):
        if mean.value is not None and mean.interval:
            axes.vlines(group + shift, *mean.interval, color=look["color"], linewidth=1)


def _limits(means: Mapping[str, Sequence[Mean]], top: float) -> tuple[float, float]:
    """Return the ends of an axis that begins at 0 and includes every value and interval."""
    ends: list[float] = []
    for means_of_run in means.values():
        for mean in means_of_run:
            numbers = (mean.value, *mean.ends)
            ends.extend(number for number in numbers if number is not None)
    return min([0, *ends]), max([top, *ends])


def spoken(groups: Sequence[str], means: Mapping[str, Sequence[Mean]], decimals: int) -> str:
    """List the values of a figure, for readers who cannot see it."""
    sentences = []
    for name, means_of_run in means.items():
        values = []
        for group, mean in zip(groups, means_of_run, strict=True):
            value = "none" if mean.value is None else f"{mean.value:.{decimals}f}"
            values.append(f"{group} {value}")
        sentences.append(f"{name}: {', '.join(values)}")
    return "; ".join(sentences)


def finish(axes: "Axes") -> None:
    """Style finished axes for the report: frame, grid, hatches and text sizes.

    A legend above the axes explains labelled parts; the figure grows to make room for it. Names of
    categories are slanted if they do not fit side by side. Texts are not parsed as formulas, since
    names may contain dollar signs.
    """
    from matplotlib.text import Text

    figure = axes.get_figure(root=True)
    assert figure is not None
    width = figure.get_figwidth() * 72 / (_SMALL * _CHARACTER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=_SMALL, color=_INK, labelcolor=_INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=_POINTS, color=_INK)
    for patch in axes.patches:
        patch.set(edgecolor=_INK, linewidth=0.7)
        patch.set_hatch_linewidth(0.6)
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
    if len(names) * (longest + 1) > 0.9 * width:
        for name in names:
            name.set(rotation=_SLANT, horizontalalignment="right", rotation_mode="anchor")


def _add_legend(axes: "Axes", figure: "Drawing", width: float) -> None:
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
    longest = max(len(label) for label in labels)
    fitting = int(width // (longest + _SIGN))
    columns = min(max(fitting, 1), len(labels))
    lines = math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * lines)
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=_SMALL,
        labelcolor=_INK,
        handlelength=2.6,
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
