"""Split runs into comparable parts by version, compare pairs, and write sentences.

Every sentence on a difference states its interval, and calls a run better only if the interval
excludes 0.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, TypeVar

from lmms_egoplan.judging.judgement import base_version
from lmms_egoplan.report.comparability import NOT_COMPARABLE, unequal
from lmms_egoplan.report.document import Difference, Figure, Headline, Item, Reference, Section
from lmms_egoplan.report.run import Run, age
from lmms_egoplan.report.scores import Key, ScoredTask
from lmms_egoplan.report.tables import (
    Column,
    Table,
    Value,
    interval_columns,
    show,
    table_of_runs,
)
from lmms_egoplan.stats import intervals
from lmms_egoplan.stats.equivalence import ERROR_RATE, MARGIN, POWER, Evidence, decide, weigh
from lmms_egoplan.task_files import base_task, package_versions
from lmms_egoplan.text import join_list

_Versions = Mapping[str, str | None]
"""Versions by task."""

_Named = TypeVar("_Named", Section, Table, Figure)
FEW_CLUSTERS = 20

_MOST_NAMES = 3
_Pairs = Mapping[tuple[str, str, str], Difference]
"""Differences by task, first run and second run."""
_Kind = tuple[str, str | None]
"""A task's name and its version; None if unknown."""


@dataclass(frozen=True)
class ComparableRuns:
    """Comparable runs of one benchmark.

    benchmark: the benchmark's name; prefix of its tasks and of its files in ``tasks/shared``.
    runs: the runs with only the tasks of this part.
    versions: version of each task; None if unknown.
    other_versions: versions in each of the benchmark's other parts.
    divided: names of runs that also have tasks in other parts.
    number: index of the part; 0 for the newest version.
    """

    benchmark: str
    runs: tuple[Run, ...]
    versions: _Versions
    other_versions: tuple[_Versions, ...]
    divided: tuple[str, ...]
    number: int

    @property
    def label(self) -> str:
        """The versions in words, such as ``version 2.0``."""
        return _label([self.versions])

    def section(self, section: Section) -> Section:
        """Make names and keys of a section unique, and add remarks on versions."""
        remarks = (*self._remarks(), *section.remarks)
        if not self.other_versions:
            return replace(section, remarks=remarks)
        tables = tuple(
            self._table(table) for table in section.tables if not self.number or table.has_own
        )
        return self._named(
            section,
            tables=tables,
            figures=tuple(map(self._figure, section.figures)),
            remarks=remarks,
        )

    def items(self, items: Iterable[Item]) -> list[Item]:
        """Make the keys of questions unique."""
        if not self.other_versions:
            return list(items)
        suffix = f" ({self.label})" if self.number else ""
        return [
            replace(item, key=f"{item.key}{suffix}", benchmark=self._key(item.benchmark))
            for item in items
        ]

    def _table(self, table: Table) -> Table:
        return (
            self._named(table, notes=(*table.notes, self._not_compared()))
            if table.has_own
            else table
        )

    def _figure(self, figure: Figure) -> Figure:
        return self._named(figure, caption=f"{figure.caption} Only runs of {self.label}.")

    def _named(self, content: _Named, **changes: Any) -> _Named:
        is_current_mix = not self.number and len(set(self.versions.values())) > 1
        title = content.title if is_current_mix else f"{content.title}, {self.label}"
        return replace(content, key=self._key(content.key), title=title, **changes)

    def _key(self, key: str) -> str:
        version = re.sub(r"[^A-Za-z0-9]+", "_", self.label).strip("_")[:40]
        return f"{key}_{self.number}_{version}" if self.number else key

    def _not_compared(self) -> str:
        is_in_both = set(_texts([self.versions])) & set(_texts(self.other_versions))
        if is_in_both:
            remark = "Runs of one version of a task are not compared with runs of another"
        else:
            other_label = _label(self.other_versions)
            remark = f"Runs of {self.label} are not compared with runs of {other_label}"
        return (
            f"{remark}: the task's media, prompts or scores have changed (see the changelog in "
            f"tasks/lmms_eval/{self.benchmark}/README.md)."
        )

    def _remarks(self) -> Iterable[str]:
        if self.other_versions:
            elsewhere = "; ".join(map(_listed, self.other_versions))
            yield (
                f"{self._not_compared()} This section: {_listed(self.versions)}. Other sections: "
                f"{elsewhere}."
            )
        if self.divided:
            yield (
                f"{', '.join(self.divided)}: the run's tasks have several versions, so "
                "means do not include all of them."
            )
        unknown = [task for task, version in self.versions.items() if version is None]
        if unknown:
            yield (
                f"The results do not contain the version of {join_list(unknown, 3)}, so "
                "these runs may not be comparable."
            )
        bases = {
            task: base_version(version)
            for task, version in self.versions.items()
            if version is not None
        }
        foreign = [
            task
            for task, version in bases.items()
            if not _is_of_package(self.benchmark, task, version)
        ]
        if foreign:
            yield (
                f"This package has a different version of {join_list(foreign, 3)} than these runs, "
                "so the gallery's pictures may differ from the model's input."
            )


def comparable_parts(benchmark: str, runs: Sequence[Run]) -> list[ComparableRuns]:
    """Split a benchmark's runs into comparable parts, the newest first.

    Without runs, the list is empty.

    Two versions of a task are never in one part. Different tasks share a part if they have the same
    version number, or if both versions are this package's.

    Args:
        benchmark: see `ComparableRuns`.
    """
    benchmark_runs = [_tasks_of(benchmark, run) for run in runs]
    kinds: set[_Kind] = set()
    for run in benchmark_runs:
        kinds |= {(name, task.version) for name, task in run.tasks.items()}
    versions_of_parts: list[dict[str, str | None]] = []
    by_name = sorted(kinds, key=str)
    for name, version in sorted(by_name, key=lambda kind: age(kind[1]), reverse=True):
        versions = next(
            (
                versions
                for versions in versions_of_parts
                if _fits(benchmark, (name, version), versions)
            ),
            None,
        )
        if versions is None:
            versions = {}
            versions_of_parts.append(versions)
        versions[name] = version
    runs_of_parts = [_runs_with(versions, benchmark_runs) for versions in versions_of_parts]
    num_parts = Counter(chain.from_iterable(runs_of_parts))
    parts = []
    for number, (versions, chosen) in enumerate(zip(versions_of_parts, runs_of_parts, strict=True)):
        others = versions_of_parts[:number] + versions_of_parts[number + 1 :]
        parts.append(
            ComparableRuns(
                benchmark,
                runs=tuple(chosen.values()),
                versions=dict(sorted(versions.items())),
                other_versions=tuple(others),
                divided=tuple(name for name in chosen if num_parts[name] > 1),
                number=number,
            )
        )
    return parts


def _tasks_of(benchmark: str, run: Run) -> Run:
    """Return a run with only a benchmark's tasks."""
    tasks = {}
    for name, task in run.tasks.items():
        if task.scoring and task.scoring.benchmark == benchmark:
            tasks[name] = task
    return replace(run, tasks=tasks)


def _fits(benchmark: str, kind: _Kind, versions: Mapping[str, str | None]) -> bool:
    """Return true if a task may be in a part with tasks of these versions."""
    return all(_match(benchmark, kind, other) for other in versions.items())


def _runs_with(versions: Mapping[str, str | None], runs: Sequence[Run]) -> dict[str, Run]:
    """Return the runs that have tasks of these versions, with only these, by name."""
    chosen = {}
    for run in runs:
        tasks = {}
        for name, task in run.tasks.items():
            if name in versions and versions[name] == task.version:
                tasks[name] = task
        if tasks:
            chosen[run.name] = replace(run, tasks=tasks)
    return chosen


def _match(benchmark: str, first: _Kind, second: _Kind) -> bool:
    first_name, first_version = first
    second_name, second_version = second
    if first_name == second_name or first_version == second_version:
        return first_version == second_version
    if first_version is None or second_version is None:
        return False
    return _is_of_package(benchmark, *first) and _is_of_package(benchmark, *second)


def _is_of_package(benchmark: str, task: str, version: str | None) -> bool:
    """Return true if this package has the version of the task.

    A user's variant has the version of the task whose name it extends.
    """
    base = base_task(task)
    tasks = [
        name for name in package_versions() if name == benchmark or name.startswith(f"{benchmark}_")
    ]
    return version in [package_versions()[name] for name in ([base] if base in tasks else tasks)]


def _label(parts: Iterable[_Versions]) -> str:
    texts = _texts(parts)
    return ("versions " if len(texts) > 1 else "version ") + " and ".join(texts)


def _texts(parts: Iterable[_Versions]) -> list[str]:
    """List the versions, the newest first."""
    unique = {version for versions in parts for version in versions.values()}
    return [version or "unknown" for version in sorted(unique, key=age, reverse=True)]


def _listed(versions: _Versions) -> str:
    """List tasks with their versions."""
    by_version: dict[str, list[str]] = {}
    for task, version in versions.items():
        by_version.setdefault(version or "unknown", []).append(task)
    return ", ".join(f"{join_list(tasks, 3)} {version}" for version, tasks in by_version.items())


def compared(
    runs: Sequence[ScoredTask],
    measure: str,
    key: str,
    title: str,
    decimals: int,
    unit: str,
    scale: float = 1.0,
    *,
    of_tasks: bool = False,
) -> Table | None:
    """Compare every pair of runs by a measure, over the questions for which both have a value.

    Omit inexact runs.

    The largest difference comes first. p-values have Holm's correction for all comparable pairs of
    the table. The verdicts on these pairs share one error rate, with a margin of `MARGIN`. Pairs
    that are not comparable have no p-values and no verdict, but the names of what differs.

    Args:
        runs: the runs to compare.
        measure: name of the measure among `Answer.scores`.
        key, title: key and title of the table.
        decimals: number of decimals of differences and intervals.
        unit: plural noun for the clusters, such as ``"videos"``.
        scale: factor for differences and intervals, 100 for per cent.
        of_tasks: true if the table compares different tasks of one model with each other, as tasks
            of one run always are.

    Returns:
        None if no two runs share a question.

    Raises:
        ValueError: a shared question has no cluster.
    """
    pairs = []
    for first_run, second_run in combinations([run for run in runs if not run.ranking_flaw], 2):
        evidence = weighed(first_run, second_run, measure, MARGIN)
        if evidence is not None:
            apart = _apart(first_run, second_run, of_tasks=of_tasks)
            pairs.append((first_run.name, second_run.name, evidence, apart))
    if not pairs:
        return None
    pairs.sort(key=lambda pair: -abs(pair[2].comparison.difference))
    comparable = [evidence for *_, evidence, apart in pairs if not apart]
    comparisons = [evidence.comparison for evidence in comparable]
    corrected = iter(intervals.holm([comparison.p_value for comparison in comparisons]))
    verdicts = iter(decide(comparable))
    rows: list[dict[str, Value]] = []
    for first, second, evidence, apart in pairs:
        row: dict[str, Value] = {
            "first": first,
            "second": second,
            "questions": evidence.comparison.questions,
        }
        row |= scaled(evidence.comparison, scale)
        if apart:
            row["verdict"] = f"{NOT_COMPARABLE}: different {join_list(apart)}"
        else:
            row["test"] = evidence.comparison.test
            row["p_value"] = evidence.comparison.p_value
            row["p_holm"] = next(corrected)
            row["verdict"] = next(verdicts)
        rows.append(row)
    columns = (
        Column("first", "First"),
        Column("second", "Second"),
        Column("questions", "Questions"),
        Column("difference", "Difference", decimals),
        *interval_columns("difference", decimals),
        Column("test", "Test"),
        Column("p_value", "p", decimals=4),
        Column("p_holm", "p (Holm)", decimals=4),
        Column("verdict", "Verdict"),
    )
    notes = [
        *_notes(comparisons, unit),
        *(f"Not compared: {run.name}, {run.ranking_flaw}." for run in runs if run.ranking_flaw),
    ]
    return replace(table_of_runs(key, title, columns, rows, notes), role="pairs")


def _apart(first: ScoredTask, second: ScoredTask, *, of_tasks: bool) -> list[str]:
    """Name what makes two runs incomparable.

    Tasks of one run differ only in what their names say.
    """
    if first.task != second.task and (of_tasks or first.run.name == second.run.name):
        return []
    return list(dict.fromkeys(part.name for part in unequal(first, second)))


def scaled(comparison: intervals.Comparison, factor: float) -> dict[str, float | None]:
    """Return difference and ends of the interval, multiplied by a factor, by column."""
    numbers = {"difference": comparison.difference, "low": comparison.low, "high": comparison.high}
    return {name: None if number is None else factor * number for name, number in numbers.items()}


def weighed(first: ScoredTask, second: ScoredTask, measure: str, margin: float) -> Evidence | None:
    """Compare a task of two runs, see `weigh`.

    Args:
        first, second: the task in each run.
        measure: name of the measure among `Answer.scores`.
        margin: margin in per cent of the highest possible score.
    """
    clusters: dict[str, str] = {}
    first_scores = _scores_of(first, measure, clusters)
    second_scores = _scores_of(second, measure, clusters)
    return weigh(first_scores, second_scores, clusters, margin, first.largest)


def _scores_of(task: ScoredTask, measure: str, clusters: dict[str, str]) -> dict[str, float | None]:
    """Return a task's scores by question, and add the questions' clusters to `clusters`."""
    scores = {}
    for key, answer in (task.answers or {}).items():
        question = _text(key)
        scores[question] = answer.scores[measure]
        if answer.cluster is not None:
            clusters[question] = answer.cluster
    return scores


def _notes(comparisons: Sequence[intervals.Comparison], unit: str) -> Iterator[str]:
    """Explain the numbers of comparisons and their limits."""
    yield (
        "Difference: first minus second, mean over the questions for which both runs have scores."
    )
    yield (
        "Low to high: 95 % interval of the difference, percentiles of "
        f"{intervals.RESAMPLES:,} bootstrap resamples of the {unit}."
    )
    if not comparisons:
        return
    if any(comparison.low is None for comparison in comparisons):
        yield f"No interval for fewer than {intervals.FEWEST_CLUSTERS} {unit}."
    counts = [comparison.clusters for comparison in comparisons if comparison.low is not None]
    if counts and min(counts) < FEW_CLUSTERS:
        yield f"Intervals over few {unit} (here as few as {min(counts)}) are too narrow."
    tests = {comparison.test for comparison in comparisons}
    if "McNemar" in tests:
        yield (
            "McNemar: exact two-sided test on the questions that only one of the two "
            "runs answered correctly."
        )
    if "permutation" in tests:
        yield (
            f"permutation: two-sided test on the sums of differences of the {unit}. It flips the "
            f"signs of the sums in all possible ways if at most {intervals.EXACT_UP_TO} sums are "
            f"not 0, otherwise in {intervals.PERMUTATIONS:,} random ways."
        )
    count = len(comparisons)
    noun = "comparison" if count == 1 else "comparisons"
    yield f"p (Holm): corrected for {count} {noun} in this table."
    yield verdict_note(MARGIN)


def verdict_note(margin: float) -> str:
    """Explain the verdicts on differences.

    Args:
        margin: margin in per cent of the highest possible score.
    """
    return (
        'Verdict: "different" by the test, "equal" by two one-sided tests with a '
        f'margin of {margin:g} % of the highest possible score, "undecided" without '
        "either claim. All verdicts of this table share an error rate of "
        f"{100 * ERROR_RATE:g} %. The number of questions that would be needed is for a "
        f"probability of {100 * POWER:g} %; there is none if the estimate is not above "
        "the number of questions at hand."
    )


def _text(key: Key) -> str:
    return "\n".join(map(str, key))


def ranked(headlines: Sequence[Headline], differences: Sequence[Difference]) -> list[Headline]:
    """Add the best and worst rank of each run among the comparable runs of its task and protocol.

    A run is above or below another if the interval of their difference excludes 0. A run has no
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
        headlines: headlines of all runs. The sentences are about the task of the first comparable
            one.
        differences: differences of all pairs of runs.
        reference: the best published score.
        unit: unit after a difference of scores, such as ``points``; "" for none.
    """
    comparable = [line for line in headlines if line.value is not None and not line.apart]
    comparable = [line for line in comparable if line.task == comparable[0].task]
    comparable.sort(key=lambda line: -(line.value or 0))
    sentences = []
    if comparable:
        sentences.append(_best_sentence(title, comparable, _both_ways(differences), unit))
        sentences += _published(comparable[0], reference, unit, is_named=len(comparable) > 1)
    return (*sentences, *_not_compared(title, headlines, is_first=not comparable))


def _best_sentence(title: str, comparable: Sequence[Headline], pairs: _Pairs, unit: str) -> str:
    best, *rivals = comparable
    if not rivals:
        return f"{best.run} scores {_score(best)} on {title}{_interval(best)}."
    second = rivals[0]
    pair = pairs.get((best.task, best.run, second.run))
    scores = (
        f"On {title}, {best.run} scores {_with_interval(best)} and {second.run} "
        f"{_with_interval(second)}"
    )
    if pair is None:
        return f"{scores}; they are not compared: their samples have no questions in common."
    if pair.why:
        return f"{scores}; they are not compared: {pair.why}."
    if pair.low is None or pair.high is None:
        return (
            f"{scores}; they are not compared: the difference has no interval ({pair.no_interval})."
        )
    size, interval = _difference(pair.value, (pair.low, pair.high), best.decimals, unit)
    if pair.is_real:
        way = "above" if pair.value > 0 else "below"
        return f"{best.run} is {size} {way} {second.run} on {title} ({interval})."
    return (
        f"{best.run} and {second.run} do not differ measurably on {title}: the difference is "
        f"{size} ({interval})."
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


def shared_reasons(headlines: Sequence[Headline]) -> tuple[str, ...]:
    """Return the reasons why scores are not comparable, if these are the same for all.

    Empty if they differ.
    """
    reasons = {line.apart for line in headlines if line.value is not None and line.apart}
    return reasons.pop() if len(reasons) == 1 else ()


def _not_compared(title: str, headlines: Sequence[Headline], *, is_first: bool) -> Iterator[str]:
    """Write sentences about runs that are not comparable, with their common reasons."""
    lines = [line for line in headlines if line.value is not None and line.apart]
    names = list(dict.fromkeys(line.run for line in lines))
    reasons = "; ".join(shared_reasons(headlines))
    if len(names) == 1 and reasons and is_first:
        line = lines[0]
        yield (
            f"{line.run} scores {_score(line)} on {title}{_interval(line)}. It is not "
            f"compared: {reasons}."
        )
    elif lines:
        why = f" ({reasons})" if reasons else "; the reasons are next to the scores"
        yield (
            f"Not compared{f' on {title}' if is_first else ''}: "
            f"{join_list(names, _MOST_NAMES)}{why}."
        )
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
    return is_scored and line is not other and is_same and not line.apart and not other.apart


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
