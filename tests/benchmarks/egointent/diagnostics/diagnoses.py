"""Diagnoses as a judge's verdicts make them."""

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import SCORES
from lmms_egoplan.benchmarks.egointent.diagnostics.scoring import Diagnosis
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS


def diagnosis_of(scores, found=FIELDS, number=1):
    rated = dict(zip(SCORES, scores, strict=True))
    judges = {
        name: None if score is None or name not in Diagnosis.askable(found) else "sees" for name, score in rated.items()
    }
    nothing = dict.fromkeys(SCORES)
    return Diagnosis(
        step_id=f"s{number}",
        fields=dict.fromkeys(found, "text"),
        scores=rated,
        judgements=nothing,
        judges=judges,
        errors=nothing,
        suspect=[],
        truncated=False,
        frames_shown=6,
        frames_sampled=6,
    )
