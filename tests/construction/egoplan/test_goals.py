import json
from dataclasses import replace

import pytest

from construction.egoplan.small import TEA, epic_rows, goals_of, write_epic
from lmms_egoplan.construction.egoplan import goals as goals_module
from lmms_egoplan.construction.egoplan.goals import (
    OVERALL,
    PROMPT,
    SECONDARY,
    SUBGOAL,
    goal_prompt,
    pool_goals,
    read_goals,
)
from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens, timestamp
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.json_replies import NOT_JSON
from shared_data import PAPERS

PAPER = PAPERS / "000_cd03694783b9721f.txt"


@pytest.fixture
def video(tmp_path):
    (video,), _ = read_epic_kitchens(write_epic(tmp_path / "n.csv", epic_rows()))
    return video


def clip(number, first, last, level=SUBGOAL, **changes):
    """Return a clip with the narrations from `first` to `last`."""
    times = {
        "start_timestamp": timestamp(100 + 300 * first),
        "stop_timestamp": timestamp(300 + 300 * last),
    }
    return (
        {level: f"goal {number}", **times}
        | ({"sub_clips": []} if level == SUBGOAL else {})
        | changes
    )


def pooled(video, reply):
    goals, rejections = pool_goals([video], {video.video_id: reply})
    return [(goal.level, goal.text, len(goal.actions)) for goal in goals], [
        rejection.reason for rejection in rejections
    ]


@pytest.mark.skipif(not PAPER.exists(), reason=f"needs {PAPER}")
def test_the_prompt_is_figure_10_verbatim(video):
    paper = PAPER.read_text(encoding="utf-8")
    figure = paper[
        paper.index("### The following provides") : paper.index("Figure 10: The detailed prompt")
    ]
    assert figure.startswith(PROMPT)
    row = "00:00:08.70         |      00:00:09.56         |      open fridge"
    assert row in figure
    fridge = replace(video.actions[0], text="open fridge", start=870, stop=956)
    assert goal_prompt(replace(video, actions=(fridge,))) == f"{PROMPT}{row}"


def test_printed_form_keeps_its_missing_bracket():
    schema = PROMPT[PROMPT.index('{"overall_goal"') : PROMPT.index("-----")]
    assert (schema.count("{"), schema.count("}")) == (3, 2)
    assert (
        "\n".join(PROMPT.splitlines()[-1:])
        == "start_timestamp      |      stop_timestamp      |      narration"
    )


def test_the_three_levels_are_pooled(video):
    assert pooled(video, goals_of()) == (
        [(OVERALL, "Make tea", 6), (SUBGOAL, "prepare a cup", 6), (SECONDARY, "heat water", 4)],
        [],
    )


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        ("prose", [NOT_JSON]),
        ([], [NOT_JSON]),
        ({"clips": []}, [goals_module.NO_GOAL]),
        (goals_of(overall_goal="чай"), [goals_module.NO_GOAL]),
        (goals_of(overall_goal=["tea"]), [goals_module.NO_GOAL]),
        (goals_of(clips={}), [goals_module.WRONG_FORM]),
        (goals_of(clips=["tea"]), [goals_module.WRONG_FORM]),
        (goals_of(clips=[clip(1, 0, 5, sub_clips=None)]), [goals_module.WRONG_FORM]),
        (
            goals_of(clips=[clip(1, 0, 5, start_timestamp="00:00:01.01")]),
            [goals_module.INVENTED_TIME],
        ),
        (goals_of(clips=[clip(1, 0, 5, stop_timestamp=17.9)]), [goals_module.INVENTED_TIME]),
        (goals_of(clips=[clip(1, 5, 0)]), [goals_module.BACKWARDS]),
        (goals_of(clips=[clip(1, 0, 2)]), [goals_module.TOO_FEW]),
        (goals_of(clips=[clip(1, 0, 3), clip(2, 3, 5)]), [goals_module.OVERLAP]),
        (
            goals_of(clips=[clip(1, 1, 5, sub_clips=[clip(2, 0, 4, SECONDARY)])]),
            [goals_module.OUTSIDE],
        ),
        (goals_of(clips=[clip(1, 0, 5, subgoal="Make the tea")]), [goals_module.REPEATED]),
    ],
)
def test_rejected_goal_has_its_reason(video, reply, reasons):
    assert pooled(video, reply)[1] == reasons


def test_sub_clips_are_used_even_if_their_clip_has_invented_times(video):
    wrong = clip(1, 0, 5, start_timestamp="00:00:00.99", sub_clips=[clip(2, 0, 3, SECONDARY)])
    goals, reasons = pooled(video, goals_of(clips=[wrong]))
    assert (SECONDARY, "goal 2", 4) in goals
    assert reasons == [goals_module.INVENTED_TIME]


@pytest.mark.parametrize(
    ("count", "reason"), [(3, goals_module.TOO_FEW), (21, goals_module.TOO_MANY)]
)
def test_goals_of_4_to_20_actions(tmp_path, count, reason):
    for number, num_goals in ((count, 0), (4, 1), (20, 1)):
        texts = [f"take cup {n}" for n in range(number)]
        (video,), _ = read_epic_kitchens(write_epic(tmp_path / "n.csv", epic_rows(texts)))
        goals, reasons = pooled(video, {"overall_goal": "take all cups", "clips": []})
        assert len(goals) == num_goals
        assert reasons == ([] if num_goals else [reason])


def test_goals_may_overlap_in_time_but_not_share_actions(tmp_path):
    """EPIC-KITCHENS' narrations overlap, so goals with their times do too."""
    rows = epic_rows([f"take cup {n}" for n in range(8)])
    rows[3] |= {"stop_timestamp": timestamp(100 + 300 * 4 + 50), "stop_frame": 810}
    (video,), _ = read_epic_kitchens(write_epic(tmp_path / "n.csv", rows))
    first = clip(1, 0, 3, stop_timestamp=timestamp(100 + 300 * 4 + 50))
    goals, reasons = pooled(video, {"overall_goal": "take all", "clips": [first, clip(2, 4, 7)]})
    assert [count for _, _, count in goals] == [8, 4, 4]
    assert reasons == []


def test_goal_around_an_unknown_action_is_rejected(video):
    goals, reasons = pooled(
        replace(video, unknown=((1850, 1900),)), goals_of(clips=[clip(1, 0, 4)])
    )
    assert goals == [(SUBGOAL, "goal 1", 5)]
    assert reasons == [goals_module.UNKNOWN_ACTION]


@pytest.mark.parametrize(
    ("text", "is_kept"), [("t" * 300, True), ("t" * 301, False), ("make tea " * 1700, False)]
)
def test_goals_are_not_longer_than_a_sentence(video, text, is_kept):
    pooled_goals, rejections = pool_goals(
        [video], {video.video_id: goals_of(clips=[], overall_goal=text + ". ")}
    )
    assert len(pooled_goals) == is_kept
    assert [rejection.reason for rejection in rejections] == [goals_module.TOO_LONG] * (not is_kept)
    if rejections:
        assert rejections[0].where == f"{video.video_id}, overall_goal"
        assert rejections[0].detail.startswith(f"{len(text.strip())}: ")


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        (
            (
                "Fill the kettle, switch on the kettle, take a cup, open the box, put a bag "
                "in the cup and pour water"
            ),
            True,
        ),
        ("1) filling kettle 2) taking the big cups 3) opening a tea box", True),
        ("fill kettle take cup pour water", True),
        ("pour water, put the bag in the cup, open the box and take a cup", False),
        ("fill the kettle and take a cup", False),
        ("make tea with a kettle, a box, a bag, a cup and water", False),
        ("Make tea", False),
    ],
)
def test_goals_that_list_their_actions_in_order(video, text, lists):
    goals = {video.video_id: goals_of(clips=[], overall_goal=text)}
    (goal,), _ = pool_goals([video], goals)
    assert goal.lists_actions() == lists
    pooled_goals, rejections = pool_goals([video], goals, ["listing-goals"])
    assert (len(pooled_goals), [rejection.reason for rejection in rejections]) == (
        (0, [goals_module.LISTING]) if lists else (1, [])
    )


def test_goals_of_a_file(video, tmp_path):
    path = tmp_path / "goals.json"
    path.write_text(json.dumps({"P01_01": goals_of(), "P99_01": goals_of()}))
    goals, (rejection,) = read_goals(path, [video])
    assert goals == {"P01_01": goals_of()}
    assert (rejection.reason, rejection.where) == (goals_module.UNKNOWN_VIDEO, f"{path}, 'P99_01'")


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ('{"P99_01": {}}', "'P99_01'.*P01_01"),
        ("{}", "P01_01"),
        ("[]", r"\[\]"),
        ('{"P01_01": {}, "P01_01": {}}', "P01_01"),
        ("tea", "JSON"),
    ],
)
def test_invalid_goal_file_gives_a_one_line_error(video, tmp_path, content, facts):
    path = tmp_path / "goals.json"
    path.write_text(content)
    with pytest.raises(LmmsEgoplanError, match=rf"^{path}: .*{facts}") as error:
        read_goals(path, [video])
    assert "\n" not in str(error.value)


def test_actions_are_named_in_the_prompt_in_order(video):
    assert [line.split("|      ")[-1] for line in goal_prompt(video).splitlines()[-6:]] == list(TEA)
