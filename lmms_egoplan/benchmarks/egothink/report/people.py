"""People's ratings, as ``annotate export`` wrote them: rows beside Tables 9 and 10."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.labels import PEOPLE, RatedAnswer
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.judging.agreement import MIN_ITEMS, agreement
from lmms_egoplan.report.document import Table, Value
from lmms_egoplan.report.labelled import check_once
from lmms_egoplan.report.notes import read_columns
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.validation import read_as

_COLUMNS = read_columns(__file__)
# Of Tables 9 to 11.
_CAPABILITIES = ("object", "planning")


def read_rated(folders: Sequence[Path]) -> list[RatedAnswer]:
    """The rated answers of all models.

    Raises:
        LmmsEgoplanError: a file cannot be read or holds something else, or two folders have the same answer; names the
            line.
    """
    rated = []
    folder_of: dict[tuple[str, str, str], Path] = {}
    for folder in folders:
        if (folder / PEOPLE).is_file():
            for where, line in read_lines(folder / PEOPLE):
                answer = read_as(RatedAnswer, where, parse_record(where, line))
                first = folder_of.setdefault((answer.id, answer.model, answer.answer), folder)
                check_once(where, f"{answer.id} of {answer.model}", folder, first)
                rated.append(answer)
    return rated


def table10(rated: Sequence[RatedAnswer]) -> Table:
    """People's mean grades of each model, on the dimensions of object and planning."""
    own = []
    for model in dict.fromkeys(answer.model for answer in rated):
        row: dict[str, Value] = {
            "grading_methods": f"People, {model}",
            "apart": "other answers than the published ones",
        }
        for dimension in DIMENSIONS:
            ratings = [x.rating for x in rated if x.model == model and dimension_of(x.id) == dimension.name]
            if dimension.capability in _CAPABILITIES and ratings:
                row[f"{dimension.capability}_{dimension.name}"] = 100 * fmean(ratings)
        own.append(row | {"answers": sum(answer.model == model for answer in rated)})
    title = "People's grades, beside Table 10" if own else "Published: people's grades of GPT-4V"
    return published_with_runs(title, load_table("egothink", "table10"), own, _COLUMNS["table10"])


def table9(rated: Sequence[RatedAnswer], graded: Sequence[Graded]) -> Table:
    """Pearson's r between the people and the judge of each run that has the same answers."""
    own = list(_agreements(rated, graded))
    title = "Judges and people, beside Table 9" if own else "Published: Pearson's r between judges, times 100"
    return published_with_runs(title, load_table("egothink", "table9"), own, _COLUMNS["table9"])


def _agreements(rated: Sequence[RatedAnswer], graded: Sequence[Graded]) -> Iterator[dict[str, Value]]:
    people = {(answer.id, answer.answer): answer.rating for answer in rated}
    capability = {dimension.name: dimension.capability for dimension in DIMENSIONS}
    for run in graded:
        records = [answer.record for answer in (run.answers or {}).values()]
        pairs = [
            (people[record.id, record.answer], record)
            for record in records
            if record.rating is not None
            and (record.id, record.answer) in people
            and capability[dimension_of(record.id)] in _CAPABILITIES
        ]
        if pairs:
            found = agreement([rating for rating, _ in pairs], [record.rating for _, record in pairs], None).pearson
            numbers = () if found is None else (100 * found.value, 100 * found.low, 100 * found.high)
            few = (f"fewer than {MIN_ITEMS} answers, so no coefficient",) if len(pairs) < MIN_ITEMS else ()
            yield {
                "evaluator": f"Human ({run.name})",
                **dict(zip(("own", "own_low", "own_high"), numbers, strict=False)),
                "judge": ", ".join(sorted({record.judge or "" for _, record in pairs})),
                "answers": len(pairs),
                "apart": ("other answers than the published ones", *few),
            }
