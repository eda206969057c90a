"""Results in sentences: differences between runs, and from the best published score.

A difference is always stated with its interval, and called one only if the interval excludes 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.report.document import Difference, Headline, Reference
from lmms_egoplan.report.tables import show
from lmms_egoplan.text import join_list

_MOST_NAMES = 3
_Pairs = Mapping[tuple[str, str, str], Difference]
"""By task and the names of first and second run."""


def ranked(headlines: Sequence[Headline], differences: Sequence[Difference]) -> list[Headline]:
    """Add the range of each run's possible places among the comparable runs of its task.

    A run is above or below another if the interval of their difference excludes 0. A run with a difference without
    interval has no range.
    """
    pairs = _both_ways(differences)
    return [_with_rank(line, [other for other in headlines if _is_rival(line, other)], pairs) for line in headlines]


def finding(
    title: str, headlines: Sequence[Headline], differences: Sequence[Difference], reference: Reference | None, unit: str
) -> tuple[str, ...]:
    """Write the sentences about a benchmark.

    Args:
        title: the benchmark's.
        headlines: of all runs; the sentences are about the task of the first comparable one.
        reference: the best published score.
        unit: of the scores, after a difference: ``points``; "" for none.
    """
    comparing = [line for line in headlines if line.value is not None and not line.apart]
    comparing = [line for line in comparing if line.task == comparing[0].task]
    comparing.sort(key=lambda line: -(line.value or 0))
    sentences = []
    if comparing:
        sentences.append(_first(title, comparing, _both_ways(differences), unit))
        sentences += _published(comparing[0], reference, unit, is_named=len(comparing) > 1)
    return (*sentences, *_apart(title, headlines, is_first=not comparing))


def _first(title: str, comparing: Sequence[Headline], pairs: _Pairs, unit: str) -> str:
    best, *others = comparing
    if not others:
        return f"{best.run} scores {_score(best)} on {title}{_interval(best)}."
    second = others[0]
    pair = pairs.get((best.task, best.run, second.run))
    scores = f"On {title}, {best.run} scores {_with_interval(best)} and {second.run} {_with_interval(second)}"
    if pair is None:
        return f"{scores}; they have no questions in common in their samples, so they are not compared."
    if pair.why:
        return f"{scores}; they are not compared: {pair.why}."
    if pair.low is None or pair.high is None:
        return f"{scores}; they are not compared: no interval of the difference ({pair.no_interval})."
    size, interval = _difference(pair.value, (pair.low, pair.high), best.decimals, unit)
    if pair.is_real:
        way = "above" if pair.value > 0 else "below"
        return f"{best.run} is {size} {way} {second.run} on {title} ({interval})."
    return f"{best.run} and {second.run} cannot be told apart on {title}: the difference is {size} ({interval})."


def _published(best: Headline, reference: Reference | None, unit: str, *, is_named: bool) -> Iterator[str]:
    if reference is None or best.value is None or best.interval is None:
        return
    value = best.value - reference.value
    interval = best.interval[0] - reference.value, best.interval[1] - reference.value
    size, ends = _difference(value, interval, best.decimals, unit)
    name = best.run if is_named else "It"
    beside = f"{reference.name}, the best in {reference.source} of the paper"
    caveat = f"; {reference.caveat}" if reference.caveat else ""
    if interval[0] <= 0 <= interval[1]:
        yield f"{name} cannot be told apart from {beside}: the difference is {size} ({ends}{caveat})."
    else:
        yield f"{name} is {size} {'above' if value > 0 else 'below'} {beside} ({ends}{caveat})."


def shared_reasons(headlines: Sequence[Headline]) -> tuple[str, ...]:
    """Return the reasons why scores are not comparable if all have the same; empty if they differ."""
    reasons = {line.apart for line in headlines if line.value is not None and line.apart}
    return reasons.pop() if len(reasons) == 1 else ()


def _apart(title: str, headlines: Sequence[Headline], *, is_first: bool) -> Iterator[str]:
    """Write sentences about runs that are not comparable, with their shared reason."""
    lines = [line for line in headlines if line.value is not None and line.apart]
    names, reasons = list(dict.fromkeys(line.run for line in lines)), "; ".join(shared_reasons(headlines))
    if len(names) == 1 and reasons and is_first:
        line = lines[0]
        yield f"{line.run} scores {_score(line)} on {title}{_interval(line)}. It is not compared: {reasons}."
    elif lines:
        why = f" ({reasons})" if reasons else "; the reasons stand beside the scores"
        yield f"Not compared{f' on {title}' if is_first else ''}: {join_list(names, _MOST_NAMES)}{why}."
    scored = {line.run for line in headlines if line.value is not None}
    if none := [run for run in dict.fromkeys(line.run for line in headlines) if run not in scored]:
        yield f"No score on {title}: {join_list(none)}."


def _score(line: Headline) -> str:
    return show(line.value, line.decimals)


def _with_interval(line: Headline) -> str:
    return f"{_score(line)}{_interval(line)}"


def _interval(line: Headline) -> str:
    """Format the interval after a score."""
    if line.interval is None:
        return f" (no interval: {line.no_interval})"
    low, high = (show(end, line.decimals) for end in line.interval)
    return f" (95\u202f% interval {low} to {high})"


def _difference(value: float, interval: tuple[float, float], decimals: int, unit: str) -> tuple[str, str]:
    """Format size and interval, without the sign that "above" and "below" express, unless the interval has 0."""
    low, high = interval
    if low <= 0 <= high or value == 0:
        ends = low, high
    else:
        ends = (low, high) if value > 0 else (-high, -low)
        value = abs(value)
    size = " ".join(filter(None, (show(value, decimals), unit)))
    return size, f"95\u202f% interval {show(ends[0], decimals)} to {show(ends[1], decimals)}"


def _both_ways(differences: Sequence[Difference]) -> _Pairs:
    pairs = {}
    for pair in differences:
        pairs[pair.task, pair.first, pair.second] = pair
        pairs[pair.task, pair.second, pair.first] = replace(
            pair,
            first=pair.second,
            second=pair.first,
            value=-pair.value,
            low=None if pair.high is None else -pair.high,
            high=None if pair.low is None else -pair.low,
            won=pair.lost,
            lost=pair.won,
        )
    return pairs


def _is_rival(line: Headline, other: Headline) -> bool:
    is_scored = line.value is not None and other.value is not None
    return is_scored and line is not other and line.task == other.task and not line.apart and not other.apart


def _with_rank(line: Headline, rivals: Sequence[Headline], pairs: _Pairs) -> Headline:
    own = [pairs.get((line.task, line.run, other.run)) for other in rivals]
    known = [pair for pair in own if pair is not None and not pair.why and pair.low is not None]
    if not rivals or len(known) < len(rivals):
        return line
    above = sum(pair.is_real and pair.value < 0 for pair in known)
    below = sum(pair.is_real and pair.value > 0 for pair in known)
    count = len(rivals) + 1
    return replace(line, rank=(1 + above, count - below), ranked=count)
