"""Every layout of training data, ids in other forms, and damaged files."""

import csv
import json

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.overlap.matching import near_duplicates
from lmms_egoplan.overlap.training_files import Item, canonical, read_training
from shared_data import DATA

UID, CLIP = "001e3e4e-2743-47fc-8564-d5efd11f9e90", "ca6e9ec9-46ac-4a02-8034-7c31157dc52c"
EPIC = (
    "participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,narration\n"
    "P01,P01_101,00:00:01.00,00:01:02.50,50,3125,take plate\n"
)
QUESTION = {
    "sample_id": 39,
    "video_source": "EpicKitchens",
    "video_id": "P07_113",
    "task_goal": "cut onion",
    "answer": "grab onion",
    "current_observation_frame": 199,
    "task_progress_metadata": [
        {"narration_text": "open drawer", "start_frame": 100, "stop_frame": 249}
    ],
    "negative_answers": ["wash knife"],
}
STEPS = {
    "videos": [
        {
            "video_uid": UID,
            "start_time": 0,
            "end_time": 900,
            "goal_description": "Making bread",
            "segments": [
                {
                    "start_time": 1.5,
                    "end_time": 9,
                    "step_description": "knead dough",
                    "segments": [
                        {
                            "start_time": 2,
                            "end_time": 3,
                            "step_description": "add flour",
                            "segments": [],
                        }
                    ],
                }
            ],
        }
    ]
}
NARRATIONS = [
    {"narration_text": f"#C C picks {thing}", "timestamp_sec": time}
    for thing, time in (("a pan", 8.9), ("it", 4))
]
ASKED = (
    "<video>\nConsidering the progress shown in the video and my current observation in the last "
    "frame, what action should I take next in order to cut onion?"
)
TURNS = [
    {
        "from": "human",
        "value": f"{ASKED}\nA. grab onion\nB. wash knife\nAnswer with the option's letter.",
    },
    {"from": "gpt", "value": "B"},
    {"from": "human", "value": "Are you sure?"},
    {"from": "gpt", "value": "yes"},
]
MESSAGES = [
    {"role": "system", "content": "You are an assistant."},
    {
        "role": "user",
        "content": [
            {"type": "video", "video": f"a/{UID}.mp4"},
            {"type": "text", "text": TURNS[0]["value"]},
        ],
    },
    {"role": "assistant", "content": "The answer is B."},
]
LAYOUTS = {
    "EPIC-KITCHENS": (EPIC, [("p01_101", (1, 62.52), "take plate")]),
    "frames alone": ("video_id,start_frame,stop_frame\nP01_13,60,119\n", [("p01_13", (1, 2), "")]),
    "Goal-Step": (json.dumps(STEPS), [(UID, (1.5, 9), "knead dough"), (UID, (2, 3), "add flour")]),
    "narration.json": (
        json.dumps({UID: {"narration_pass_1": {"narrations": NARRATIONS}}}),
        [(UID, (8.4, 9.4), "#C C picks a pan"), (UID, (3.5, 4.5), "#C C picks it")],
    ),
    "narration.json in videos": (
        json.dumps({"videos": {UID: {"narration_pass_2": {"narrations": NARRATIONS[:1]}}}}),
        [(UID, (8.4, 9.4), "#C C picks a pan")],
    ),
    "EgoPlan-IT": (
        json.dumps([QUESTION]),
        [("p07_113", (2, 4), "grab onion"), ("p07_113", (2, 5), "open drawer")],
    ),
    "EgoPlan-IT under a key": (
        json.dumps({"EgoPlan_IT": [QUESTION | {"task_progress_metadata": []}]}, indent=1),
        [("p07_113", (3.98, 4), "grab onion")],
    ),
    "EgoPlan-Bench2": (
        json.dumps(
            [
                {
                    "video_id": f"{CLIP}_2",
                    "task_start_frame": 30,
                    "current_observation_frame": 89,
                    "answer": "dig",
                }
            ]
        ),
        [(CLIP, (1, 3), "dig")],
    ),
    "list": (
        f"videos/{UID}.mp4\n\n{CLIP}\nP01_101\n",
        [(UID, None, ""), (CLIP, None, ""), ("p01_101", None, "")],
    ),
    "CSV of ids": (f"video_id\n{UID}\n", [(UID, None, "")]),
    "CSV of spans": (
        f"Video_ID, start_sec ,end_sec\n{UID},1,2\n{UID},,\n{UID},nan,\n",
        [(UID, (1, 2), ""), *2 * [(UID, None, "")]],
    ),
    "clock times": (
        f"video_id,start,end\n{UID},00:01:02,1:03.5\n{UID},1:01:00,01:01:00\n",
        [(UID, (62, 63.5), ""), (UID, (3659.5, 3660.5), "")],
    ),
    "other columns of times": (
        "video_id,t0,t1,tstart,tend,from,to\nP01_13,1,2,,,,\nP01_13,,,1,2,,\nP01_13,,,,,1,2\n",
        3 * [("p01_13", (1, 2), "")],
    ),
    "EPIC-KITCHENS without frames": (
        (
            "video_id,start_timestamp,stop_timestamp,narration\n"
            "P01_13,00:00:01.00,00:01:02.50,take plate\n"
        ),
        [("p01_13", (1, 62.5), "take plate")],
    ),
    "JSON Lines": (
        f'{{"video_id": "{UID}", "start": 1, "end": "00:00:02,5"}}\n\n{{"video_uid": "{CLIP}"}}\n',
        [(UID, (1, 2.5), ""), (CLIP, None, "")],
    ),
    "conversations": (
        json.dumps(
            [{"id": 1, "video": f"ego4d/{UID}.mp4", "start": 3, "end": 4, "conversations": TURNS}]
        ),
        [(UID, (3, 4), "wash knife"), (UID, (3, 4), "yes")],
    ),
    "messages": (
        json.dumps({"messages": MESSAGES}),
        [(UID, None, "wash knife")],
    ),
    "images of conversations": (
        json.dumps(
            [{"images": [f"frames/{UID}/1.jpg", "other/2.jpg"], "conversations": TURNS[:2]}]
        ),
        [(UID, None, "wash knife")],
    ),
    "questions without videos": (
        "question,answer\nWhat next?,open tap\n",
        [("", None, "open tap")],
    ),
    "several videos": (
        json.dumps([{"videos": [f"{UID}.mp4", "P01_13.mp4"]}]),
        [(UID, None, ""), ("p01_13", None, "")],
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read(name, tmp_path):
    text, expected = LAYOUTS[name]
    path = tmp_path / "training"
    path.write_bytes(text.encode("utf-8-sig"))
    items = read_training(path)
    assert [
        (item.video, item.span and pytest.approx(item.span), item.action) for item in items
    ] == expected
    assert all(item.where.startswith(str(path)) for item in items)


def test_questions_and_steps_have_their_goal(tmp_path):
    path = tmp_path / "training.json"
    for content, texts in (
        ([QUESTION], ("cut onion", "grab onion")),
        (STEPS, ("Making bread", "knead dough")),
    ):
        path.write_text(json.dumps(content))
        item = read_training(path)[0]
        assert (item.goal, item.action) == texts


OPTIONS = {"A": "open drawer", "B": "grab onion", "C": "wash knife"}
LINES = "".join(f"\n{letter}. {text}" for letter, text in OPTIONS.items())
# A verbatim copy of EgoPlan's question, as training files of other forms contain it, by the field
# of the answer.
COPIES = {
    "letter": (ASKED + LINES, "B"),
    "letter in brackets": (ASKED + LINES, "(B)"),
    "letter and text": (ASKED + LINES, "B. grab onion"),
    "sentence with letter": (ASKED + LINES, "The answer is B."),
    "text": (ASKED + LINES, "Grab the onion."),
    "text without options": (ASKED, "grab onion"),
    "tag": (ASKED + LINES, "<answer>B</answer>"),
    "thinking and tag": (
        ASKED + LINES,
        "<think>A is a drawer, so A?</think>\n<answer>(B)</answer>",
    ),
    "box": (ASKED + LINES, "So it is \\boxed{B}"),
    "box with text": (ASKED + LINES, "Final answer: $\\boxed{\\text{B}}$"),
    "sentence with option": (
        ASKED + LINES,
        "So I would choose option B, since the onion is there.",
    ),
    "letter and reason": (ASKED + LINES, "B because the onion is there"),
    "text and reason": (ASKED + LINES, "Grab the onion. This is because the drawer is open."),
    "request after options": (
        ASKED + " A. open drawer B. grab onion Answer with the option's letter.",
        "B",
    ),
    "question after options": (ASKED + " A. open drawer B. grab onion Which is best?", "B"),
    "bold letters": (
        ASKED + LINES.replace("A.", "**A.**").replace("B.", "**B.**").replace("C.", "**C.**"),
        "B",
    ),
    "dashes": (ASKED + LINES.replace(".", " -"), "B - grab onion"),
    "numbers": (ASKED + LINES.replace("A.", "1.").replace("B.", "2.").replace("C.", "3."), "2"),
    "options in one line": (ASKED + " Options: (A) open drawer (B) grab onion (C) wash knife", "B"),
    "options in small letters": (
        ASKED + LINES.replace("A.", "a)").replace("B.", "b)").replace("C.", "c)"),
        "b",
    ),
}


def in_forms(asked, answer):
    """Return a question and its answer in the forms of training files."""
    turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": answer}]
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    record = {"id": "1", "video": "clips/7.mp4", "conversations": turns}
    return {
        "LLaVA": json.dumps([record, record]),
        "LLaVA without video": json.dumps([{"id": "1", "conversations": turns}]),
        "JSON Lines": json.dumps(record) + "\n" + json.dumps(record) + "\n",
        "messages": json.dumps([{"messages": messages}]),
        "TRL": json.dumps(
            {"prompt": messages[:1], "chosen": messages[1:], "rejected": messages[1:]}
        ),
        "question and answer": json.dumps([{"question": asked, "answer": answer}]),
        "question, options and answer": json.dumps(
            [
                {
                    "question": asked.split("\n" + "A.")[0],
                    "options": list(OPTIONS.values()),
                    "answer": answer,
                }
            ]
        ),
    }


def test_a_copied_question_is_found_in_every_form(tmp_path):
    path, copied = (
        tmp_path / "training.json",
        Item("p07_113", None, "cut onion", "grab onion", "39"),
    )
    missed, wrong = [], []
    for name, (asked, answer) in COPIES.items():
        for form, text in in_forms(asked, answer).items():
            path.write_text(text)
            if near_duplicates([copied], read_training(path)) == [""]:
                missed.append((name, form))
            for goal, action in (
                ("cut onion", "wash knife"),
                ("cut onion", "open drawer"),
                ("cut leek", "grab onion"),
            ):
                if near_duplicates([Item("", None, goal, action, "39")], read_training(path)) != [
                    ""
                ]:
                    wrong.append((name, form, goal, action))
    assert (missed, wrong) == ([], [])


SHORT = "What should I do next?"
GOAL = "My goal is to cut the onion."
CHOICES = {"choice_a": "open drawer", "choice_b": "grab onion"}
HUMAN, GPT = (
    {"from": speaker, "value": text} for speaker, text in (("human", SHORT), ("gpt", "grab onion"))
)
# The same question in records whose goal, options or answer are in other places.
PLACES = {
    "options in one text": {"question": ASKED, "options": LINES, "answer": "B"},
    "numbered options": {
        "question": ASKED,
        "options": ["1. open drawer", "2. grab onion"],
        "answer": 2,
    },
    "correct_answer": {
        "question": ASKED,
        "options": [*OPTIONS.values()],
        "correct_answer": "grab onion",
    },
    "golden_choice_idx": {"question": ASKED, **CHOICES, "golden_choice_idx": "B"},
    "instruction and input": {"instruction": SHORT, "input": GOAL, "output": "grab onion"},
    "system turn": {"conversations": [{"from": "system", "value": GOAL}, HUMAN, GPT]},
    "system text": {"system": GOAL, "conversations": [HUMAN, GPT]},
    "first turn": {"conversations": [HUMAN | {"value": GOAL}, GPT | {"value": "OK"}, HUMAN, GPT]},
    "two turns of the human": {"conversations": [HUMAN | {"value": GOAL}, HUMAN, GPT]},
    "options in an earlier turn": {
        "conversations": [HUMAN | {"value": ASKED + LINES}, HUMAN, GPT | {"value": "B"}]
    },
    "prompt and chosen": {
        "prompt": ASKED + LINES,
        "chosen": [{"role": "assistant", "content": "B"}],
    },
    "texts in a list": {
        "messages": [
            {"role": "user", "content": [ASKED]},
            {"role": "model", "content": ["grab onion"]},
        ]
    },
    "VideoChat2": {"video": "c.mp4", "QA": [{"i": GOAL, "q": SHORT, "a": "grab onion"}]},
}


def test_goals_options_and_answers_are_found_in_every_place(tmp_path):
    path, copied = (
        tmp_path / "training.json",
        Item("p07_113", None, "cut onion", "grab onion", "39"),
    )
    missed = []
    for name, record in PLACES.items():
        path.write_text(json.dumps([record]))
        if near_duplicates([copied], read_training(path)) == [""]:
            missed.append(name)
    assert missed == []


def test_questions_that_are_not_read_are_refused_by_record_and_field(tmp_path):
    path = tmp_path / "training.json"
    for record, field in (
        ({"question": ASKED, "options": [*OPTIONS.values()], "answer": 1}, "answer"),
        ({"question": ASKED, "options": [*OPTIONS.values()], "answer": "1"}, "answer"),
        ({"question": ASKED, "answer": ["grab onion", "cut onion"]}, "answer"),
        ({"question": ASKED, "choices": [*OPTIONS.values()], "label": 1}, "label"),
        ({"question": ASKED, "answers": ["grab onion"]}, "answers"),
        ({"query": SHORT, "history": [[ASKED, "ok"]], "response": "grab onion"}, "history"),
        ({"video": "c.mp4", "qa": [[ASKED, "grab onion"]]}, "qa"),
        ({"video": "c.mp4", "questions": [ASKED], "answers": ["grab onion"]}, "questions"),
        ({"video": "c.mp4", "dialogue": [{"ask": ASKED, "reply": "grab onion"}]}, "dialogue"),
    ):
        path.write_text(json.dumps([record]))
        with pytest.raises(LmmsEgoplanError) as raised:
            read_training(path)
        assert f"{path}, 1, {field}: " in str(raised.value), record


def test_a_letter_without_its_option_has_no_text(tmp_path):
    path = tmp_path / "training.json"
    cases = {"B": "", "<answer>d</answer>": "", "2": "2", "<answer>2</answer>": "2"}
    for answer, text in cases.items():
        for form in ("LLaVA", "question and answer"):
            path.write_text(in_forms(ASKED, answer)[form])
            assert {item.action for item in read_training(path)} == {text}, (form, answer)


def test_unended_thinking_is_refused_by_record_and_field(tmp_path):
    path = tmp_path / "training.json"
    for form, field in (("LLaVA", "1, conversations, 2"), ("question and answer", "1, answer")):
        path.write_text(in_forms(ASKED, "<think>A or B?")[form])
        with pytest.raises(LmmsEgoplanError) as raised:
            read_training(path)
        assert f"{path}, {field}: " in str(raised.value)


@pytest.mark.parametrize(
    ("name", "video"),
    [
        ("P01_101", "p01_101"),
        ("P01/rgb_frames/P01_101/frame_0000000760.jpg", "p01_101"),
        ("P01_101_7", "p01_101"),
        ("xP01_101", "xp01_101"),
        (f"D:\\ego4d\\{UID.upper()}.MP4", UID),
        (f"grp-{UID}", f"grp-{UID}"),
        (f"{UID}_0_300.mp4", UID),
        ("folder/my.video.mkv", "my.video"),
    ],
)
def test_ids_have_many_forms(name, video):
    assert canonical(name) == video


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["no video ids"]),
        ("\n \n", ["no video ids"]),
        ("[]", ["no video ids"]),
        ("Dear reader, this is no list.\n", ["no video ids"]),
        ("id,text\n1,a\n", ["no video ids"]),
        ("video_id;start;end\nP01_13;12;14\n", ["line 1", "';'", "commas"]),
        ("video_id\tstart\tend\nP01_13\t12\t14\n", ["line 1", "commas"]),
        ('{"results": {"a": 1}}', ["no video id"]),
        ("[1, 2]", ["training.txt, 1", "no video id"]),
        ('[{"video_id": "a"}', ["line 1"]),
        ('{"video_id": "a"}\n{"video_id": "b"\n', ["line 2"]),
        ('{"video_id": "a"}\n{"id": "b"}\n', ["line 2", "no video id"]),
        ('[{"video_id": "a"}, {"id": 1}]', ["training.txt, 2", "no video id"]),
        ("video_id,narration\na,b\n,c\n", ["training.txt, 2", "no video id"]),
        (
            '[{"video": "a.mp4", "conversations": [{"value": "x"}]}]',
            ["training.txt, 1, conversations, 1", "from"],
        ),
        ('[{"video": "a.mp4", "conversations": "x"}]', ["training.txt, 1, conversations", "turns"]),
        (
            '[{"conversations": [{"from": "narrator", "value": "x"}]}]',
            ["conversations, 1", "narrator", "human"],
        ),
        ('video_id,narration\na,"cut off\n', ["not CSV"]),
        ("video_id\n\xff\n", ["UTF-8"]),
    ],
)
def test_unknown_and_damaged_files_are_refused(text, parts, tmp_path):
    path = tmp_path / "training.txt"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(LmmsEgoplanError) as raised:
        read_training(path)
    assert all(part in str(raised.value) for part in (str(path), *parts))
    assert not any("no video id" in part for part in parts) or "EPIC-KITCHENS" in str(raised.value)


@pytest.mark.parametrize(
    ("times", "field"),
    [
        *(
            ({"start_sec": value, "end_sec": 9}, "start_sec")
            for value in ("x", [], {}, True, "1:2:3:x", "inf", "12h")
        ),
        ({"start_sec": 3, "end_sec": 2}, "start_sec"),
        ({"start_sec": -1, "end_sec": -1}, "start_sec"),
        ({"start": 3}, "start"),
        ({"start_sec": 3, "end_sec": None}, "start_sec"),
        ({"segment": [1.5, 2]}, "segment"),
        ({"timestamps": ["00:01", "00:02"]}, "timestamps"),
        ({"clip_start_sec": "1.5", "clip_end_sec": "2"}, "clip_start_sec"),
        ({"startTime": 1, "endTime": 2}, "starttime"),
        ({"t0": 1}, "t0"),
        ({"from": "0:01", "until": "0:02"}, "from"),
        ({"window": [100, 140]}, "window"),
        ({"relevant_windows": [[100, 140], [150, 160]]}, "relevant_windows"),
        ({"clip": ["00:00:12", "00:00:14"]}, "clip"),
        ({"part": [["00:00:12", "00:00:14"]]}, "part"),
    ],
)
def test_times_that_are_not_read_are_refused_by_record_and_field(times, field, tmp_path):
    path = tmp_path / "training.json"
    path.write_text(
        json.dumps([{"video_id": UID, "start_sec": 1, "end_sec": 2}, {"video_id": UID, **times}])
    )
    with pytest.raises(LmmsEgoplanError) as raised:
        read_training(path)
    assert f"{path}, 2, {field}: " in str(raised.value)


@pytest.mark.parametrize("value", [None, "", " ", "nan", float("nan")])
def test_missing_times_are_unknown(value, tmp_path):
    path = tmp_path / "training.json"
    path.write_text(
        json.dumps(
            [{"video_id": UID, "start_sec": value, "end_sec": value, "time": "2024-05-01 10:00"}]
        )
    )
    assert [item.span for item in read_training(path)] == [None]


@pytest.mark.skipif(
    not (DATA / "epic-kitchens-100").exists(), reason="needs ../shared/data/epic-kitchens-100"
)
def test_epic_kitchens_frames_agree_with_its_timestamps():
    path = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
    items = read_training(path)
    with path.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(items) == len(rows) == 9668
    for item, row in zip(items, rows, strict=True):
        assert item.video == row["video_id"].lower()
        for end, name in zip(item.span, ("start_timestamp", "stop_timestamp"), strict=True):
            hours, minutes, seconds = map(float, row[name].split(":"))
            assert abs(end - (3600 * hours + 60 * minutes + seconds)) < 0.06


@pytest.mark.skipif(
    not (DATA / "ego4d-goalstep").exists(), reason="needs ../shared/data/ego4d-goalstep"
)
def test_goal_step_has_all_segments():
    path = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"
    videos = json.loads(path.read_text())["videos"]
    steps = [step for video in videos for step in video["segments"]]
    segments = [*steps, *(part for step in steps for part in step["segments"])]
    items = read_training(path)
    spans = [(round(part["start_time"], 3), round(part["end_time"], 3)) for part in segments]
    assert sorted(item.span for item in items) == sorted(spans)
    assert len({item.video for item in items}) == 100


@pytest.mark.skipif(not (DATA / "egoplan").exists(), reason="needs ../shared/data/egoplan")
def test_published_examples_are_read():
    items = read_training(DATA / "egoplan" / "examples.json")
    answers = {item.action: item for item in items}
    assert answers["grab onion"].span == pytest.approx((9162 / 50, 9309 / 50), abs=6e-4)
    assert answers["put cereal box into cupboard"].span == pytest.approx(
        (36 / 60, 761 / 60), abs=6e-4
    )
