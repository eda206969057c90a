"""EgoThink's questions for the gallery."""

from collections.abc import Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.report.answers import graded_runs
from lmms_egoplan.benchmarks.egothink.report.prepared_rows import prepared_questions
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.report.document import Item, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run


def items(runs: Sequence[Run]) -> list[Item]:
    """The questions with what the runs with samples answered, in the dimensions' order.

    Raises:
        LmmsEgoplanError: as for `section`.
    """
    graded = graded_runs(runs)
    keys = list(dict.fromkeys(key for run in graded for key in run.answers))
    prepared, _ = prepared_questions(keys)
    found, uses = [], dict.fromkeys((question_id for question_id, _ in keys), 0)
    for key in sorted(keys, key=lambda key: DIMENSION_NAMES.index(dimension_of(key[0]))):
        question_id, reference = key
        said = {run.name: run.answers[key] for run in graded if key in run.answers}
        logged = next((answered.question for answered in said.values() if answered.question is not None), None)
        question, images = prepared.get(key, (logged or f"{question_id}: the question is not at hand", None))
        uses[question_id] += 1
        name = dimension_of(question_id)
        dimension = DIMENSIONS[DIMENSION_NAMES.index(name)]
        found.append(
            Item(
                key=f"egothink/{question_id}" + (f" ({uses[question_id]})" if uses[question_id] > 1 else ""),
                benchmark="egothink",
                question=question,
                facts={"capability": dimension.capability, "dimension": name},
                references={"Reference answer": reference},
                images=images,
                answers={run: _shown(answered.judged) for run, answered in said.items()},
            )
        )
    return found


def _shown(judged: JudgedAnswer) -> ShownAnswer:
    verdicts: dict[float | None, Verdict] = {0.0: "wrong", 1.0: "right", None: "unscored"}
    told = [f"not judged: {judged.error}" if judged.rating is None else f"{judged.rating:g} of 1 by {judged.judge}"]
    told += ["cut off"] * bool(judged.truncated) + ["suspect"] * judged.suspect
    return ShownAnswer(
        verdict=verdicts.get(judged.rating, "partly"),
        text=judged.answer,
        rating="; ".join(told),
        judgement=judged.judgement,
    )
