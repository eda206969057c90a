"""What is wrong with or missing from the runs."""

from collections.abc import Iterator, Sequence

from lmms_egoplan.benchmarks.egoplan.report.answers import Docs
from lmms_egoplan.benchmarks.egoplan.report.official import OFFICIAL
from lmms_egoplan.benchmarks.egoplan.report.series import Series


def remarks(series: Sequence[Series], docs: Docs, problem: str | None, unlike: str | None) -> Iterator[str]:
    """A line each.

    Args:
        problem: why prepared rows are missing.
        unlike: why there are no levels of similarity.
    """
    concerned: dict[str, list[str]] = {}
    for each in series:
        for text in _flaws(each):
            concerned.setdefault(text, []).append(each.name)
    for text, names in concerned.items():
        yield f"{', '.join(names)}: {text}"
    asked = {key for each in series for key in each.answers or ()}
    if missing := asked - docs.keys():
        why = problem or f"the prepared data do not have them, {min(missing)[1]} for one"
        yield f"{len(missing):,} questions lack their text, past actions, goal and frames: {why}"
    if unlike:
        yield f"No accuracy by goal-answer similarity: {unlike}"


def _flaws(each: Series) -> Iterator[str]:
    size, asked, scored = each.number("split_size"), each.number("num_questions"), each.questions
    if size is not None and size != OFFICIAL:
        yield (
            f"the annotation file has {size:,} questions, EgoPlan-Val {OFFICIAL:,}; the published scores do not "
            "compare."
        )
    if asked is not None and size is not None and asked < size:
        yield f"{asked:,} of the annotation file's {size:,} questions were asked."
    if asked is not None and scored is not None and scored < asked:
        yield (
            f"{asked - scored:,} of {asked:,} questions have no score, since a choice's mean log-probability is "
            "unknown or not finite."
        )
    if each.answers is None:
        yield "no samples, and therefore no intervals, groups, comparisons and gallery."
