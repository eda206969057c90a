"""The axes of charts do not enlarge noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.report.axes import axis_of
from lmms_egoplan.report.document import Group, Headline


def group(value, interval=None):
    return Group("g", "run", value, interval, "", 100)


def line(run, value=40.0, **fields):
    return Headline(
        run, "Bench", "task", "accuracy", value, 2, (value - 2, value + 2), 100, 1.0, **fields
    )


def width(axis):
    return axis.high - axis.low


@given(
    st.lists(st.tuples(st.floats(-20, 120), st.floats(0, 60)), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from([1, 100]),
)
def test_an_axis_includes_everything_and_is_never_narrow(points, from_zero, top):
    groups = [
        group(v * top / 100, ((v - half) * top / 100, (v + half) * top / 100)) for v, half in points
    ]
    axis = axis_of(groups, top, [top / 4], from_zero=from_zero)
    ends = [end for part in groups for end in part.interval]
    assert axis.low <= min(*ends, top / 4) + 1e-9
    assert axis.high >= max(*ends, top / 4) - 1e-9
    assert 2 <= len(axis.ticks) <= 8
    assert axis.ticks[-1] == pytest.approx(axis.high)
    assert not from_zero or axis.low <= 0 <= axis.high
    widest = max(high - low for low, high in (part.interval for part in groups))
    assert width(axis) >= min(top, max(top / 4, 4 * widest)) - 1e-9
    if min(ends) >= 0 and max(ends) <= top:
        assert axis.low >= -1e-9
        assert from_zero or axis.high <= top + 1e-9


@pytest.mark.parametrize("interval", [None, (39.8, 43.2)])
def test_small_differences_are_not_stretched(interval):
    first, second = group(41.5, interval), group(41.9, interval)
    axis = axis_of([first, second], 100)
    assert float(axis.at(41.9).rstrip("%")) - float(axis.at(41.5).rstrip("%")) < 2
    assert (axis.low, axis.high) != (0, 100)


def test_intervals_outside_the_scale_are_visible():
    axis = axis_of([group(1, (-3, 5)), group(99, (97, 103))], 100, from_zero=True)
    assert axis.low <= -3
    assert axis.high >= 103
