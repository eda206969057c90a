from dataclasses import astuple

import pytest

from lmms_egoplan.annotation.egointent_audit import AUDIT, audit, audit_csv, read_audit
from lmms_egoplan.benchmarks.egointent.prepare import PAPER
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.errors import LmmsEgoplanError

LABELS = dict.fromkeys(FIELDS, "as it was")
NAMES = {field: field for field in FIELDS}


def revision(**changes):
    """Return the revision of a step with supported, unchanged labels, except for `changes`."""
    values = LABELS | {f"supported_{field}": "yes" for field in FIELDS}
    return LABELS, values | changes


def test_rates_are_counted():
    revisions = [
        revision(),
        revision(global_intent="another"),  # still supported
        revision(next_step_plan="another", supported_next_step_plan="no"),
        revision(supported_next_step_plan="no"),  # unchanged
    ]
    supported = [(True, True, True), (True, False, True)]
    moves, durations = [0.0, -0.1, 0.5, -0.2], [1.0, 2.0, 4.0, 11.0]
    rejections = ["confusion", "no", "confusion", "other"]
    rates = {
        rate.rate: rate
        for rate in audit(
            NAMES, revisions, [True, True, False], supported, moves, durations, rejections
        )
    }
    assert {name: (rate.value, rate.count, rate.of) for name, rate in rates.items()} == {
        "candidates_rewritten_for_hindsight_local_intent": (0.0, 0, 4),
        "candidates_rewritten_for_hindsight_global_intent": (0.0, 0, 4),
        "candidates_rewritten_for_hindsight_next_step_plan": (25.0, 1, 4),
        "labels_supported_before_the_cut": (83.3, 5, 6),
        "steps_with_all_labels_supported": (50.0, 1, 2),
        "rejected_for_hindsight": (25.0, 1, 4),
        "rejected_for_confusion": (50.0, 2, 4),
        "rejected_for_abstraction": (0.0, 0, 4),
        "rejected_for_video": (0.0, 0, 4),
        "rejected_for_other": (25.0, 1, 4),
        "cuts_moved": (75.0, 3, 4),
        "cuts_moved_earlier": (50.0, 2, 4),
        "cuts_moved_later": (25.0, 1, 4),
        "outcome_not_yet_visible": (66.7, 2, 3),
        "median_adjustment_sec": (0.2, 3, 4),
        "mean_adjustment_sec": (0.267, 3, 4),
        "median_duration_sec": (3.0, 4, 4),
        "mean_duration_sec": (4.5, 4, 4),
        "p75_duration_sec": (5.75, 4, 4),
        "steps_above_10_sec": (25.0, 1, 4),
    }
    for name, facts in {
        "cuts_moved": ("75.0", "3 of 4", "25.2", "761 of 3,014", "sec. 3.3"),
        "steps_with_all_labels_supported": ("50.0", "1 of 2", "n/a"),
    }.items():
        assert all(fact in str(rates[name]) for fact in facts)


def test_rates_include_the_papers_values():
    rates = {rate.rate: rate for rate in audit(NAMES, [], [], [], [], [])}
    assert {rate.value for rate in rates.values()} == {"n/a"}
    assert {rate.paper for rate in rates.values()} == {
        6.1,
        13.7,
        94.3,
        25.2,
        98.4,
        0.11,
        0.23,
        1.87,
        3.42,
        3.57,
        "n/a",
    }
    assert rates["steps_above_10_sec"].paper == 6.1
    for name in ("median", "mean", "p75"):
        assert rates[f"{name}_duration_sec"].paper == PAPER[f"{name}_sec"]


@pytest.mark.parametrize("revisions", [[], [revision()]])
def test_audit_file_round_trip(tmp_path, revisions):
    rates = audit(NAMES, revisions, [], [], [-0.25], [])
    (tmp_path / AUDIT).write_text(audit_csv(rates), encoding="utf-8", newline="")
    assert [astuple(rate) for rate in read_audit(tmp_path)] == [
        tuple(map(str, astuple(rate))) for rate in rates
    ]


@pytest.mark.parametrize("cells", ["1", "cuts_moved,1,2,3,4,5,6,7,8"])
def test_line_with_wrong_number_of_values_names_the_file(tmp_path, cells):
    text = audit_csv(audit(NAMES, [], [], [], [], []))
    (tmp_path / AUDIT).write_text(f"{text}{cells}\n", encoding="utf-8")
    with pytest.raises(LmmsEgoplanError, match=r"audit\.csv"):
        read_audit(tmp_path)
