"""Summaries of a run's computation paths."""

import pytest

from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL, details
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.audits import ranking_details, summarize
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
    """Return the entry `ranking` of one question per use, passed through text as in a harness."""
    entries = []
    for use in uses:
        texts = [
            str(LoglikelihoodText.from_score(Loglikelihood(loss, 2, False, use=use)))
            for loss in (0.5, 1, 2, 3)
        ]
        question = score_ranking(DOC, texts, EGOPLAN_VAL)
        assert question["acc"]["score"] == 1
        entries.append(question["details"]["ranking"])
    return entries


def test_audits_are_counted_with_their_largest_difference():
    entries = values(
        PathUse("full", "image", audit=2e-7, rejected=("cached",)),
        PathUse("packed", "image", audit=3e-7),
        PathUse("packed", "image"),
    )
    summary = summarize(entries)
    assert (summary["audits"], summary["difference"]) == (2, 3e-7)
    assert "difference" not in summarize(values(PathUse("packed", "image")))


def test_tolerance_noise_near_ties_and_notes_are_in_the_results():
    entries = values(
        PathUse("packed", "image", audit=2e-3, tolerance=1e-4, near_tie=True, noise=3e-5),
        PathUse("packed", "image", tolerance=1e-2, note="a note", noise=4e-5),
        PathUse("packed", "image", audit=1e-7, tolerance=None),
    )
    summary = summarize(entries)
    assert summary["noise"] == 4e-5
    assert "noise" not in summarize(entries[2:])
    assert summary["tolerance"] == 1e-4
    assert "tolerance" not in summarize(entries[1:])
    assert summary["near_ties"] == 1
    assert summarize(entries[1:2] * 3)["note"] == "a note"


def test_a_summary_has_a_note_only_if_a_question_has_one():
    for note in (None, "a note"):
        summary = summarize(values(PathUse("packed", "image", note=note)))
        assert ("note" in summary) == (note is not None)


def test_a_path_that_another_process_rejects_ends_the_run():
    entries = values(PathUse("packed", "image"), PathUse("full", "image", rejected=("packed",)))
    with pytest.raises(LmmsEgoplanError, match=r"1 .*image.* packed.*ranking_path=full"):
        summarize(entries)
    entries = values(PathUse("packed", "text"), PathUse("full", "image", rejected=("packed",)))
    assert summarize(entries)["audits"] == 0


def test_a_backend_without_paths_has_no_summary():
    assert ranking_details([Loglikelihood(0.5, 2, False)]) == {}
    question = score_ranking(DOC, ["(0.5, False)"] * 4, EGOPLAN_VAL)
    assert "ranking" not in question["details"]
    assert "ranking" not in details([question["details"]])


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
