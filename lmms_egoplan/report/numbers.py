"""Numbers for people: on the page, in Markdown, in a terminal."""

from lmms_egoplan.report.document import Value, known

_P_VALUES = ("p_value", "p_holm")
_COVERAGE = "coverage"


def show(value: Value, decimals: int | None, key: str = "") -> str:
    """Format a value of a table, in the column with this key; an en dash for None and NaN.

    p-values and coverages are never rounded to 0, coverages never to 100, and no number is a negative 0.
    """
    if isinstance(value, str):
        return value
    if value is None or known(value) is None:
        return "\u2013"
    if isinstance(value, int) and not decimals:
        return f"{value:,}".replace("-", "\u2212")
    text = f"{value:g}" if decimals is None else f"{value:.{decimals}f}"
    if key == _COVERAGE and 0 < value < 100 and float(text) in (0, 100):
        step = 10 ** -(decimals or 0)
        return f"<{step:.{decimals}f}" if value < 50 else f">{100 - step:.{decimals}f}"
    if float(text):
        return text.replace("-", "\u2212")
    if key in _P_VALUES and value > 0 and decimals is not None:
        return f"<{10**-decimals:.{decimals}f}"
    return text.removeprefix("-")


def percent(share: float) -> str:
    """Format a fraction, at most 1, with one decimal; "0 %" and "100 %" only for exactly none or all.

    >>> [percent(share).replace(chr(0x202F), " ") for share in (0, 1 / 3355, 0.98301, 0.99999, 1)]
    ['0 %', '< 0.1 %', '98.3 %', '> 99.9 %', '100 %']
    """
    share = min(share, 1)
    if share in (0, 1):
        return f"{share:.0%}".replace("%", "\u202f%")
    if share < 0.0005:
        return "< 0.1\u202f%"
    return "> 99.9\u202f%" if share >= 0.9995 else f"{100 * share:.1f}\u202f%"


def counted(count: int, unit: str) -> str:
    """Format a number with its unit, passed in the plural.

    >>> counted(1, "questions"), counted(3355, "videos"), counted(1, "activities")
    ('1 question', '3,355 videos', '1 activity')
    """
    one = f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")
    return f"{count:,} {one if count == 1 else unit}"


def with_interval(value: Value, interval: tuple[float, float] | None, decimals: int) -> str:
    """Format a score with its 95 % interval in one cell.

    >>> with_interval(41.517, (39.84, 43.2), 1), with_interval(41.517, None, 1)
    ('41.5 (39.8 to 43.2)', '41.5')
    """
    shown = show(value, decimals)
    return shown if interval is None else f"{shown} ({show(interval[0], decimals)} to {show(interval[1], decimals)})"
