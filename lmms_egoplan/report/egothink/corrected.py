"""Correct a judge's scores by people's ratings of a sample."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.report.egothink.agreement import coefficient_cells
from lmms_egoplan.report.egothink.answer_files import RatedAnswer
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.egothink.judges import SAME_ANSWERS
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.correction import FEWEST_RATED, corrected

# Smallest share of a sample that people must rate; missing ratings may not be random.
_MOSTLY_RATED = 0.9


@dataclass(frozen=True)
class _MatchedSample:
    """People's ratings of a sample of a model's answers, matched with a run's answers.

    Attributes:
        size: Number of answers in the sample that people rated.
        planned: Number of answers that were drawn; None if unknown.
        frame: Number of answers from which the sample was drawn; 0 if unknown.
        records: The run's answers.
        rated: For each of the run's answers, people's rating of the same answer; None without one.
        judged: Number of the run's answers with a rating by the judge.
    """

    size: int
    planned: int | None
    frame: int
    records: Sequence[JudgedAnswer]
    rated: Sequence[RatedAnswer | None]
    judged: int

    @property
    def matched(self) -> int:
        """Number of the sample's answers that are answers of the run."""
        return len(self.rated) - self.rated.count(None)

    @property
    def both(self) -> int:
        """Number of answers that people and the judge rated."""
        return sum(
            rating is not None and record.rating is not None
            for record, rating in zip(self.records, self.rated, strict=True)
        )

    @property
    def is_usable(self) -> bool:
        """True if the run's score can be corrected by the sample."""
        is_whole = self.matched == self.size and self.frame == len(self.records)
        return self.both >= MIN_ITEMS and is_whole

    def remarks(self) -> Iterator[str]:
        """Yield the reasons why the score is not corrected, and the limits of the correction."""
        asked = len(self.records)
        if not self.frame:
            yield (
                "Not corrected: the labels do not state the probability and size of one sample. "
                "Draw a sample with lmms-egoplan annotate egothink --sample."
            )
        if self.matched < self.size:
            yield (
                f"Not corrected: only {self.matched} of the {self.size} rated answers "
                "are answers of this run."
            )
        if self.frame not in (0, asked):
            yield (
                f"Not corrected: the sample was drawn from {self.frame} answers, but "
                f"the run has {asked}."
            )
        if self.both < FEWEST_RATED:
            yield (
                f"Only {self.both} answers have both ratings. Intervals need "
                f"{MIN_ITEMS} of them. With fewer than {FEWEST_RATED}, their coverage "
                "was not simulated and may be lower."
            )
        if self.size < _MOSTLY_RATED * (self.planned or 0):
            yield (
                f"Only {self.size} of the {self.planned} sampled answers are rated by "
                "people. The estimate may be biased."
            )
        if self.judged < asked:
            yield (
                f"{asked - self.judged} answers without a judge's rating are excluded, "
                "also if the run's score counts them as -1. Those that judges cannot "
                "rate may differ from the others."
            )


def _matched_sample(
    sample: Mapping[tuple[str, str], RatedAnswer], run: EgoThinkTask
) -> _MatchedSample:
    """Match people's ratings of a sample, by id and answer, with a run's answers."""
    records = [answer.record for answer in run.answers.values()]
    designs = {(answer.planned, answer.probability) for answer in sample.values()}
    planned, chance = next(iter(designs))
    frame = 0
    if planned and chance and len(designs) == 1 and len(sample) <= planned:
        frame = round(planned / chance)
    return _MatchedSample(
        size=len(sample),
        planned=planned,
        frame=frame,
        records=records,
        rated=[sample.get((record.id, record.answer)) for record in records],
        judged=len(run.judged),
    )


def corrected_table(people: Sequence[RatedAnswer], graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the judge's scores, corrected by people's ratings of a sample."""
    columns = (
        Column("model", "Run"),
        Column("labels", "Labels of"),
        Column("raw", "Score by the judge", decimals=1),
        Column("people", "People only", decimals=1),
        *interval_columns("people", decimals=1, prefix="people_"),
        Column("corrected", "Corrected", decimals=1),
        *interval_columns("corrected", decimals=1, prefix="corrected_"),
        Column("error", "People minus judge", decimals=1),
        *interval_columns("error", decimals=1, prefix="error_"),
        Column("correlation", "Pearson's r", decimals=2),
        Column("tuning", "Lambda", decimals=2),
        Column("sampled", "Rated"),
        Column("of", "Judged"),
        Column("mean", "Mean over"),
        Column("remarks", "Remarks"),
    )
    notes = [
        (
            "People rated a random sample of the answers. Corrected: the score that they "
            "would give to all answers, estimated by prediction-powered inference (arXiv "
            "2311.01453) from their ratings and the judge's. People only: from their "
            "ratings alone. People minus judge: the judge's own error. Low to high: 95 % "
            "interval over questions and samples. In simulations with at least "
            f"{FEWEST_RATED} rated answers, that of the corrected score contains the truth "
            "in 93 % of the studies or more, within the error of the simulation."
        ),
        (
            "Score by the judge: over the answers that the judge rated. Rated: answers of "
            "the sample with ratings by people and by the judge. Judged: all answers with "
            "a rating by the judge. Lambda: weight of the judge's ratings, 0 to 1. Mean "
            "over: the dimensions, with equal weights, if all twelve have judged answers; "
            "otherwise the answers, with equal weights."
        ),
    ]
    title = "Judge corrected by people"
    rows = _correction_rows(people, graded)
    return table_of_runs("egothink_corrected", title, columns, rows, notes)


def _correction_rows(
    people: Sequence[RatedAnswer], graded: Sequence[EgoThinkTask]
) -> Iterator[dict[str, Value]]:
    """Yield the score of each run, corrected by people's ratings of a sample of its answers.

    A row without a corrected score says why.
    """
    samples: dict[str, dict[tuple[str, str], RatedAnswer]] = {}
    for answer in people:
        samples.setdefault(answer.model, {})[answer.id, answer.answer] = answer
    for run in graded:
        for model, ratings in samples.items():
            sample = _matched_sample(ratings, run)
            if sample.matched < SAME_ANSWERS * sample.size:
                continue
            row: dict[str, Value] = {
                "model": run.name,
                "labels": model,
                "sampled": f"{sample.both} of {sample.planned or sample.size}",
                "of": sample.judged,
                "remarks": " ".join(sample.remarks()),
            }
            if sample.is_usable:
                row |= _corrected_cells(sample, run)
            yield row


def _corrected_cells(sample: _MatchedSample, run: EgoThinkTask) -> dict[str, Value]:
    """Return the corrected score of a run, and the numbers next to it."""
    sizes = Counter(dimension_of(record.id) for record in run.judged.values())
    is_whole = len(sizes) == len(DIMENSIONS)
    weights: list[float] = [1] * len(sample.records)
    if is_whole:
        weights = [1 / sizes[dimension_of(record.id)] for record in sample.records]
    result = corrected(
        [record.rating for record in sample.records],
        [None if answer is None else answer.rating for answer in sample.rated],
        [None if answer is None else answer.probability for answer in sample.rated],
        weights,
    )
    scores = {"raw": result.raw} | coefficient_cells(
        {"people": result.people, "corrected": result.corrected, "error": result.error}
    )
    cells: dict[str, Value] = {name: in_percent(score) for name, score in scores.items()}
    cells["tuning"] = result.tuning
    cells["correlation"] = result.correlation
    cells["mean"] = "dimensions" if is_whole else "answers"
    return cells
