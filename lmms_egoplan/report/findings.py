"""Rank runs, and write sentences on their scores and differences.

Every sentence on a difference states its interval, and calls a run better only if the interval
excludes 0 and the test agrees (`Difference.is_real`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.report.document import Difference, Headline, Reference
from lmms_egoplan.report.tables import show
from lmms_egoplan.text import join_list

_MOST_NAMES = 3
_Pairs = Mapping[tuple[str, str, str], Difference]
"""Differences by task, first run and second run."""


def ranked(headlines: Sequence[Headline], differences: Sequence[Difference]) -> list[Headline]:
    """Add the best and worst rank of each run among the runs with its task and protocol.

    A run is above or below another if their difference is real (`Difference.is_real`). A run has no
    rank if one of its differences has no interval.
    """
    pairs = _both_ways(differences)
    lines = []
    for line in headlines:
        rivals = [rival for rival in headlines if _is_rival(line, rival)]
        lines.append(_with_rank(line, rivals, pairs))
    return lines


def finding(
    title: str,
    headlines: Sequence[Headline],
    differences: Sequence[Difference],
    reference: Reference | None,
    unit: str,
) -> tuple[str, ...]:
    """Write the sentences about a benchmark.

    Args:
        title: the benchmark's title.
        headlines: main scores of all runs.
        differences: differences of all pairs of runs.
        reference: the best published score.
        unit: unit after a difference of scores, such as ``points``; "" for none.
    """
    scored = [line for line in headlines if line.value is not None]
    by_protocol: dict[tuple[str, str], list[Headline]] = {}
    for line in sorted(scored, key=lambda line: -(line.value or 0)):
        by_protocol.setdefault((line.task, line.protocol), []).append(line)
    pairs = _both_ways(differences)
    has_one_protocol_each = len({task for task, _ in by_protocol}) == len(by_protocol)
    sentences = []
    for (task, protocol), lines in by_protocol.items():
        name = title
        if len(by_protocol) > 1:
            name += f" ({task if has_one_protocol_each else protocol or task})"
        sentences.append(_best_sentence(name, lines, pairs, unit))
        comparable = [line for line in lines if not line.apart]
        if comparable:
            sentences += _published(comparable[0], reference, unit, is_named=len(scored) > 1)
    return (*sentences, *_without_score(title, headlines))


def _best_sentence(title: str, lines: Sequence[Headline], pairs: _Pairs, unit: str) -> str:
    """Compare the best two scores of one protocol."""
    best, *rivals = lines
    if not rivals:
        return f"{best.run} scores {_score(best)} on {title}{_interval(best)}."
    second = rivals[0]
    pair = pairs.get((best.task, best.run, second.run))
    scores = (
        f"On {title}, {best.run} scores {_with_interval(best)} and {second.run} "
        f"{_with_interval(second)}"
    )
    if pair is None:
        return f"{scores}; their difference is unknown without samples of the same questions."
    if pair.why:
        return f"{scores}; their difference means nothing: {pair.why}."
    if pair.low is None or pair.high is None:
        return f"{scores}; the difference has no interval ({pair.no_interval})."
    size, interval = _difference(pair.value, (pair.low, pair.high), best.decimals, unit)
    if pair.is_real:
        way = "above" if pair.value > 0 else "below"
        return f"{best.run} is {size} {way} {second.run} on {title} ({interval})."
    test = f"; p = {pair.p_value:.3f}" if pair.excludes_zero and pair.p_value is not None else ""
    return (
        f"{best.run} and {second.run} do not differ measurably on {title}: the difference is "
        f"{size} ({interval}{test})."
    )


def _published(
    best: Headline, reference: Reference | None, unit: str, *, is_named: bool
) -> Iterator[str]:
    if reference is None or best.value is None or best.interval is None:
        return
    value = best.value - reference.value
    interval = best.interval[0] - reference.value, best.interval[1] - reference.value
    size, ends = _difference(value, interval, best.decimals, unit)
    name = best.run if is_named else "It"
    best_published = f"{reference.name}, the best in {reference.source} of the paper"
    caveat = f"; {reference.caveat}" if reference.caveat else ""
    if interval[0] <= 0 <= interval[1]:
        yield (
            f"{name} does not differ measurably from {best_published}: the difference is "
            f"{size} ({ends}{caveat})."
        )
    else:
        yield (
            f"{name} is {size} {'above' if value > 0 else 'below'} {best_published} "
            f"({ends}{caveat})."
        )


def _without_score(title: str, headlines: Sequence[Headline]) -> Iterator[str]:
    scored = {line.run for line in headlines if line.value is not None}
    unscored = list(dict.fromkeys(line.run for line in headlines if line.run not in scored))
    if unscored:
        yield f"No score on {title}: {join_list(unscored)}."


def _score(line: Headline) -> str:
    return show(line.value, line.decimals)


def _with_interval(line: Headline) -> str:
    return f"{_score(line)}{_interval(line)}"


def _interval(line: Headline) -> str:
    """Format a score's interval, or the reason why there is none."""
    if line.interval is None:
        return f" (no interval: {line.no_interval})"
    low, high = (show(end, line.decimals) for end in line.interval)
    return f" (95\u202f% interval {low} to {high})"


def _difference(
    value: float, interval: tuple[float, float], decimals: int, unit: str
) -> tuple[str, str]:
    """Format size and interval of a difference.

    If the interval excludes 0, both are positive, since "above" and "below" express the sign.
    """
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
    is_same = (line.task, line.protocol) == (other.task, other.protocol)
    return is_scored and line is not other and is_same


def _with_rank(line: Headline, rivals: Sequence[Headline], pairs: _Pairs) -> Headline:
    differences = [pairs.get((line.task, line.run, rival.run)) for rival in rivals]
    comparable = [pair for pair in differences if pair is None or not pair.why]
    usable = [pair for pair in comparable if pair is not None and pair.low is not None]
    if not comparable or len(usable) < len(comparable):
        return line
    above = sum(pair.is_real and pair.value < 0 for pair in usable)
    below = sum(pair.is_real and pair.value > 0 for pair in usable)
    count = len(comparable) + 1
    return replace(line, rank=(1 + above, count - below), ranked=count)
