"""The plan that is printed before the page opens: labels, people and hours."""

import re
from statistics import median

import pytest

from annotation.rating import STUDY, Apart, new_store
from lmms_egoplan.annotation.serve import plan
from lmms_egoplan.annotation.study import Group


@pytest.mark.parametrize("labels", [0, 9, 12])
def test_a_plan_counts_labels_people_and_hours(tmp_path, labels):
    rounds = [STUDY.rounds[0].model_copy(update={"seconds": 20.0}), *STUDY.rounds[1:]]
    people = {"annotator": Group(count=4), "reviewer": Group(count=3)}
    store = new_store(tmp_path / "labels.sqlite", 20, 4, 2, Apart, people=people, rounds=rounds)
    times = [1.0 + number**2 for number in range(labels)]
    for number, seconds in enumerate(times):
        slot = store.assignments.next_slot(f"annotator-{number % 4 + 1}")
        store.save(slot, f"form {number}", {"rating": str(number % 2)}, seconds=seconds)
    first, check, *_ = plan(store)
    store.close()
    seconds = median(times) if labels >= 10 else 20.0
    assert f"{labels} of 40 labels" in first
    assert re.search(rf"annotators: 4\b.*\b{(40 - labels) / 4:.0f} more", first)
    assert f"{(40 - labels) * seconds / 3600:.1f} hours" in first
    assert "0 of 10 labels" in check
    assert re.search(r"reviewers: 3\b.*unknown", check)
