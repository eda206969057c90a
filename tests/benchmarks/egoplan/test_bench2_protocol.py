"""The published prompt, and how its replies count."""

import pytest

from benchmarks.egoplan.bench2_questions import EXAMPLES
from lmms_egoplan.benchmarks.egoplan.metrics import score_planning_choices, score_planning_letter
from lmms_egoplan.benchmarks.egoplan.protocol import bench2_prompt as lettered_question
from lmms_egoplan.benchmarks.egoplan.records import DOMAINS
from lmms_egoplan.benchmarks.egoplan.records import read_bench2_annotations as read_annotations

DOC = {
    "sample_id": "v_1",
    "video_id": "v",
    "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    "golden_choice_idx": "B",
    "split_size": 1321,
}


@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the public records")
def test_the_prompt_of_the_published_record():
    (record,) = read_annotations(EXAMPLES)
    assert lettered_question({"question": record.question, "choices": record.choices}) == (
        "Select the best answer to the following multiple-choice question based on the video. Respond with only the "
        "letter (A, B, C, or D) of the correct option.\n\n"
        "Considering the progress shown in the video and my current observation in the last frame, what action should "
        "I take next in order to bake pastry in the oven and set a stopwatch?\n\n"
        "A. attach stopwatch\nB. place oven tray\nC. operate oven\nD. set stopwatch"
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_domain_has_an_accuracy_of_its_own(domain):
    metric = {"Daily life": "acc_daily_life"}.get(domain, f"acc_{domain.lower()}")
    ranked = score_planning_choices(DOC | {"domain": domain}, [(2.5, False), (1.5, True), (3.0, False), (2.0, False)])
    assert ranked["acc"] == ranked[metric] == {"score": 1.0, "video_id": "v"}
    assert {name for name in ranked if name.startswith("acc_")} == {"acc_sum", "acc_bytes", metric} & ranked.keys()
    written = score_planning_letter(DOC | {"domain": domain}, ["C"])
    assert written["acc"] == written[metric] == {"score": 0.0, "video_id": "v"}
    unread = score_planning_letter(DOC | {"domain": domain}, ["I cannot tell"])
    assert (unread[metric]["score"], unread["unparsed"]["score"]) == (0.0, 1.0)
