"""Metrics of a run about its computation paths."""

import math

import pytest

from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.audits import (
    audit_values,
    largest_difference,
    largest_noise,
    largest_tolerance,
    notes,
    num_audits,
    num_near_ties,
)
from lmms_egoplan.ranking.loglikelihood import (
    Loglikelihood,
    LoglikelihoodPair,
    LoglikelihoodText,
    PathUse,
)

CHOICES = ["put", "take cereal bag", "open cupboard", "wash"]
DOC = {
    "sample_id": 7,
    "video_source": "Ego4D",
    "video_id": "v",
    "choices": CHOICES,
    "golden_choice_idx": "A",
    "split_size": 3,
}


def values(*uses):
    """Return the values of `ranking_audits` for one question per use, passed through text as in a
    harness.
    """
    audit_rows = []
    for use in uses:
        texts = [
            str(LoglikelihoodText.from_score(Loglikelihood(loss, 2, False, use=use)))
            for loss in (0.5, 1, 2, 3)
        ]
        question = score_ranking(DOC, texts, EGOPLAN_VAL)
        assert question["acc"]["score"] == 1
        assert question["ranking_audits"] == question["ranking_audit_difference"]
        audit_rows.append(question["ranking_audits"])
    return audit_rows


def test_audits_are_counted_with_their_largest_difference():
    audit_rows = values(
        PathUse("full", "image", audit=2e-7, rejected=("cached",)),
        PathUse("packed", "image", audit=3e-7),
        PathUse("packed", "image"),
    )
    assert num_audits(audit_rows) == 2
    assert largest_difference(audit_rows) == 3e-7
    assert math.isnan(largest_difference(values(PathUse("packed", "image"))))


def test_tolerance_noise_near_ties_and_notes_are_in_the_results():
    audit_rows = values(
        PathUse("packed", "image", audit=2e-3, tolerance=1e-4, near_tie=True, noise=3e-5),
        PathUse("packed", "image", tolerance=1e-2, note="a note", noise=4e-5),
        PathUse("packed", "image", audit=1e-7, tolerance=None),
    )
    assert largest_noise(audit_rows) == 4e-5
    assert math.isnan(largest_noise(audit_rows[2:]))
    assert largest_tolerance(audit_rows) == 1e-4
    assert math.isnan(largest_tolerance(audit_rows[1:]))
    assert num_near_ties(audit_rows) == 1
    assert notes(audit_rows[1:2] * 3) == "a note"


def test_the_note_metric_exists_only_with_a_note():
    for note in (None, "a note"):
        score = Loglikelihood(0.5, 2, False, use=PathUse("packed", "image", note=note))
        assert ("ranking_note" in audit_values([score])) == (note is not None)


def test_a_path_that_another_process_rejects_ends_the_run():
    audit_rows = values(PathUse("packed", "image"), PathUse("full", "image", rejected=("packed",)))
    for aggregate in (num_audits, largest_difference):
        with pytest.raises(LmmsEgoplanError, match=r"1 .*image.* packed.*ranking_path=full"):
            aggregate(audit_rows)
    assert (
        num_audits(
            values(PathUse("packed", "text"), PathUse("full", "image", rejected=("packed",)))
        )
        == 0
    )


def test_a_backend_without_paths_has_no_audit_values():
    assert audit_values([Loglikelihood(0.5, 2, False)]) == {}
    assert "ranking_audits" not in score_ranking(DOC, ["(0.5, False)"] * 4, EGOPLAN_VAL)


def test_a_pair_carries_its_path():
    use = PathUse("packed", "image", 1e-7, ("cached",))
    pair = LoglikelihoodPair(-1.5, False, 3, use)
    assert pair.__reduce__()[0](*pair.__reduce__()[1]).use == use


@pytest.mark.parametrize(
    "use", ["packed", {"path": "packed"}, {"path": 1, "kind": "", "audit": None, "rejected": []}]
)
def test_an_invalid_path_is_rejected(use):
    with pytest.raises(ValueError, match=r"\(loss, is_greedy\)"):
        score_ranking(DOC, [{"loss": 0.5, "use": use}] * 4, EGOPLAN_VAL)
