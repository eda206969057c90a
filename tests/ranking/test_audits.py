"""What a run's results say of the computation paths."""

import math

import pytest

from lmms_egoplan.benchmarks.egoplan import metrics
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.audits import (
    audit_values,
    largest_difference,
    largest_tolerance,
    notes,
    num_audits,
    num_near_ties,
)
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodPair, LoglikelihoodText, PathUse

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
    """Those that three questions leave in `ranking_audits`, through the text that a harness carries."""
    found = []
    for use in uses:
        texts = [str(LoglikelihoodText.of(Loglikelihood(loss, 2, False, use=use))) for loss in (0.5, 1, 2, 3)]
        question = metrics.score_ranking(DOC, texts)
        assert question["acc"]["score"] == 1
        assert question["ranking_audits"] == question["ranking_audit_difference"]
        found.append(question["ranking_audits"])
    return found


def test_audits_are_counted_and_their_largest_difference_given():
    found = values(
        PathUse("full", "image", audit=2e-7, rejected=("cached",)),
        PathUse("packed", "image", audit=3e-7),
        PathUse("packed", "image"),
    )
    assert num_audits(found) == 2
    assert largest_difference(found) == 3e-7
    assert math.isnan(largest_difference(values(PathUse("packed", "image"))))


def test_tolerance_near_ties_and_notes_are_in_the_results():
    found = values(
        PathUse("packed", "image", audit=2e-3, tolerance=1e-4, near_tie=True),
        PathUse("packed", "image", tolerance=1e-2, note="a note"),
        PathUse("packed", "image", audit=1e-7, tolerance=None),
    )
    assert largest_tolerance(found) == 1e-4
    assert math.isnan(largest_tolerance(found[1:]))
    assert num_near_ties(found) == 1
    assert notes(found[1:2] * 3) == "a note"


def test_only_a_note_gives_its_metric():
    for note in (None, "a note"):
        score = Loglikelihood(0.5, 2, False, use=PathUse("packed", "image", note=note))
        assert ("ranking_note" in audit_values([score])) == (note is not None)


def test_a_path_that_another_process_rejects_ends_the_run():
    found = values(PathUse("packed", "image"), PathUse("full", "image", rejected=("packed",)))
    for aggregate in (num_audits, largest_difference):
        with pytest.raises(LmmsEgoplanError, match=r"1 .*image.* packed.*ranking_path=full"):
            aggregate(found)
    assert num_audits(values(PathUse("packed", "text"), PathUse("full", "image", rejected=("packed",)))) == 0


def test_a_backend_that_tells_no_paths_has_no_such_values():
    assert audit_values([Loglikelihood(0.5, 2, False)]) == {}
    assert "ranking_audits" not in metrics.score_ranking(DOC, ["(0.5, False)"] * 4)


def test_a_pair_carries_its_path():
    use = PathUse("packed", "image", 1e-7, ("cached",))
    pair = LoglikelihoodPair(-1.5, False, 3, use)
    assert pair.__reduce__()[0](*pair.__reduce__()[1]).use == use


@pytest.mark.parametrize("use", ["packed", {"path": "packed"}, {"path": 1, "kind": "", "audit": None, "rejected": []}])
def test_what_is_no_path_is_refused(use):
    with pytest.raises(ValueError, match=r"\(loss, is_greedy\)"):
        metrics.score_ranking(DOC, [{"loss": 0.5, "use": use}] * 4)
