"""Test the rounds of EgoIntent's quality control.

The tests cover what each form shows and asks, and what settles a step.
"""

import json

import pytest

from annotation.serving import run
from benchmarks.egointent.source import FPS, raw_record, write_annotations
from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.egointent import FLOW, read_items
from lmms_egoplan.annotation.export import write_label_studio
from lmms_egoplan.annotation.flow import ADJUDICATION
from lmms_egoplan.annotation.forms import FormError, read_values
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import count_video_frames, read_video_frames
from media.files import read_number

STAGES = ("", "revise", "verify", "review", "supported", "boundary", ADJUDICATION)
# Step 1 is numbers from frame 15 on. Its recorded cut is at frame 27, and its outcome ends before
# frame 33.
START, CUT, OUTCOME = 15, 27, 33
SUPPORTED = [f"supported_{field}" for field in FIELDS]


@pytest.fixture
def folder(tmp_path, numbered_videos):
    (tmp_path / "videos").symlink_to(numbered_videos)
    return tmp_path


def items_of(folder, **changes):
    path = write_annotations(
        folder / "steps.jsonl", [raw_record(1, outcome_sec=OUTCOME / FPS) | changes]
    )
    return read_items(path, folder / "videos")


def label(item, earlier=(), stage="", **changes):
    """Return the label of someone who changes nothing else in the form of a round."""
    fields = {field.name: field for field in FLOW.form(item.contents, earlier, 0, stage).fields}
    sent = {name: str(getattr(field, "initial", "")) or "yes" for name, field in fields.items()}
    return read_values(
        FLOW.form(item.contents, earlier, 0, stage), {k: [v] for k, v in (sent | changes).items()}
    )


def frames_of(form, folder):
    """Return the numbers of the frames in the delivered clip."""
    path = MediaFolder(folder / "media").file(form.media[0])
    return [
        read_number(frame) for frame in read_video_frames(path, range(count_video_frames(path)))
    ]


@pytest.mark.parametrize("cut", [20, CUT, 31])
def test_only_the_first_round_has_frames_after_the_cut(folder, cut):
    (item,) = items_of(folder)
    revised = label(item, stage="revise", end_sec=str(cut / FPS))
    assert revised["end_sec"] == pytest.approx(cut / FPS)
    for stage in STAGES:
        numbers = frames_of(FLOW.form(item.contents, (), 0, stage), folder)
        assert numbers == list(range(START, OUTCOME if stage == "revise" else CUT)), stage
        if stage not in ("", "revise"):
            assert frames_of(FLOW.form(item.contents, (revised,), 0, stage), folder) == list(
                range(START, cut)
            ), stage
    verified = label(item, (revised,), "verify", boundary="no", end_sec=str((cut - 2) / FPS))
    for stage in ("review", "supported", "boundary", ADJUDICATION):
        form = FLOW.form(item.contents, (revised, verified), 0, stage)
        assert frames_of(form, folder) == list(range(START, cut - 2)), stage
    # In final rounds, the lead's decision is the last of the earlier labels.
    decided = label(item, (revised, verified), ADJUDICATION, end_sec=str((cut - 4) / FPS))
    form = FLOW.form(item.contents, (revised, verified, decided), 0, "boundary")
    assert frames_of(form, folder) == list(range(START, cut - 4))


def test_label_studio_gets_no_frame_after_the_recorded_cut(folder):
    out = folder / "studio"
    write_label_studio(FLOW, items_of(folder), MediaFolder(folder / "media"), out)
    (task,) = json.loads((out / "tasks.json").read_text())
    (name,) = (
        text for text in task["data"].values() if isinstance(text, str) and text.endswith(".mp4")
    )
    assert (
        count_video_frames(out.parent / name.removeprefix("/data/local-files/?d=")) == CUT - START
    )
    assert "after" not in (out / "tasks.json").read_text()


def test_later_cuts_are_offered_in_the_first_round_only(folder):
    (item,) = items_of(folder)
    help_ = {
        stage: FLOW.form(item.contents, (), 0, stage).fields[0].help for stage in ("", "revise")
    }
    assert "recorded end is at 0.900 s" in help_["revise"]
    assert "models and reviewers never see" in help_["revise"]
    assert "Later frames are not in the clip" in help_[""]
    (film,) = FLOW.form(item.contents, (), 0, "revise").parts
    assert film.title == "Step, with frames after the recorded end"
    later = {"end_sec": str(30 / FPS)}
    assert label(item, stage="revise", **later)["end_sec"] == pytest.approx(1)
    revised = label(item, stage="revise")
    for stage in ("verify", "review", ADJUDICATION):
        with pytest.raises(FormError, match="End of the clip"):
            label(item, (revised,), stage, **later)
    for outcome in (None, CUT / FPS):
        (item,) = items_of(folder, outcome_sec=outcome)
        assert "after" not in item.contents
        assert FLOW.form(item.contents, (), 0, "revise") == FLOW.form(item.contents)
        with pytest.raises(FormError, match="End of the clip"):
            label(item, stage="revise", **later)


def test_wrong_outcome_is_one_error(folder):
    message = r"steps\.jsonl, line 1, step_id 's1', outcome_sec: expected seconds, at"
    for outcome in (0.8, "soon", float("nan"), float("inf")):
        with pytest.raises(LmmsEgoplanError, match=message):
            items_of(folder, outcome_sec=outcome)


def test_outcome_in_a_table_is_read(folder):
    record = raw_record(1, outcome_sec=OUTCOME / FPS)
    path = folder / "steps.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in (record, record.values())))
    (item,) = read_items(path, folder / "videos")
    assert item.contents["after"] == items_of(folder)[0].contents["after"]


def test_prepared_steps_ignore_the_outcome(folder, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    items_of(folder)
    code, output = run(
        "data", "prepare", "egointent", folder / "steps.jsonl", "--videos", folder / "videos"
    )
    assert code == 0
    assert "ignored: outcome_sec" in output
    (row,) = EGOINTENT.load("test")
    assert row["end_sec"] == raw_record(1)["end_sec"]
    assert not any("outcome" in name for name in row)


def test_each_round_asks_its_own_questions(folder):
    (item,) = items_of(folder)
    revised = label(item, stage="revise", local_intent="hold it")
    names = {
        stage: [field.name for field in FLOW.form(item.contents, (revised,), 0, stage).fields]
        for stage in STAGES
    }
    labels = [name for pair in zip(SUPPORTED, FIELDS, strict=True) for name in pair]
    assert names["revise"] == ["end_sec", *labels]
    assert (
        names["verify"]
        == names["review"]
        == names[""]
        == names[ADJUDICATION]
        == ["boundary", "end_sec", *labels]
    )
    assert names["supported"] == SUPPORTED
    assert names["boundary"] == ["boundary"]
    form = FLOW.form(item.contents, (revised,), 0, "supported")
    assert form.fields[0].help == "Label: hold it"
    assert FLOW.form(item.contents, (revised,), 0, "boundary").parts[1].text == "hold it"


def test_reviewers_write_only_about_labels_that_they_reject(folder):
    (item,) = items_of(folder)
    revised = label(item, stage="revise")
    changes = {
        "supported_global_intent": "abstraction",
        "global_intent": "build it",
        "local_intent": "ignored",
    }
    values = label(item, (revised,), "review", **changes)
    assert {field for field in FIELDS if field in values} == {"global_intent"}
    assert (
        FLOW.form(item.contents, (revised, values), 0, "supported").fields[1].help
        == "Label: build it"
    )
    # The lead's form has the text of every label.
    assert {*FIELDS} <= label(item, (revised,), ADJUDICATION).keys()


def differ(item, *rounds):
    """Return whether labels differ.

    A round is its stage, its number of people, and the last person's changes.
    """
    labels, earlier = {}, []
    for stage, people, changes in rounds:
        values = [label(item, earlier, stage) for _ in range(people - 1)] + [
            label(item, earlier, stage, **changes)
        ]
        labels[stage] = values
        earlier.append(values[0])
    return FLOW.differ(item, labels)


MOVE = {"end_sec": str(20 / FPS)}
REWRITE = {"global_intent": "build it"}
REJECT = {"supported_global_intent": "confusion"}
REJECT_ALL = {f"supported_{field}": "confusion" for field in FIELDS}


@pytest.mark.parametrize(
    ("revise", "verify", "review", "expected"),
    [
        ({}, {}, None, False),
        (MOVE | REWRITE | {"supported_global_intent": "no"}, {}, None, False),
        ({}, REJECT, None, True),
        ({}, REWRITE, None, True),
        ({}, MOVE, None, True),
        ({}, {"boundary": "no"}, None, True),
        # The reviewers accept what the verifier has changed.
        ({}, REJECT | REWRITE, {}, False),
        ({}, MOVE | {"boundary": "no"}, {}, False),
        ({}, {}, REJECT, True),
        ({}, {}, REJECT | REWRITE, True),
        ({}, REWRITE, REJECT, True),
        ({}, {}, MOVE, True),
        ({}, {}, {"boundary": "no"}, True),
        # Reviewers also decide where the verifier rejects all labels.
        ({}, REJECT_ALL, None, True),
        ({}, REJECT_ALL | REWRITE, {}, False),
        ({}, REJECT_ALL, REJECT, True),
        # Texts of labels that a reviewer keeps are ignored.
        ({}, {}, REWRITE, False),
    ],
)
def test_last_people_decide_whether_a_step_is_settled(folder, revise, verify, review, expected):
    (item,) = items_of(folder)
    rounds = [
        ("revise", 1, revise),
        ("verify", 1, verify),
        *([("review", 3, review)] if review is not None else []),
    ]
    assert differ(item, *rounds) is expected


@pytest.mark.parametrize("changes", [REJECT, REJECT | REWRITE, MOVE, {"boundary": "no"}])
def test_every_reviewer_counts_without_a_verification(folder, changes):
    (item,) = items_of(folder)
    assert differ(item, ("revise", 1, {}), ("review", 1, changes))
    assert differ(item, ("revise", 1, {}), ("review", 3, changes))
    assert not differ(item, ("revise", 1, MOVE | REWRITE), ("review", 3, {}))


@pytest.mark.parametrize("stage", ["revise", "verify"])
def test_people_of_one_round_must_agree(folder, stage):
    (item,) = items_of(folder)
    assert differ(item, (stage, 2, REWRITE))
    assert not differ(item, (stage, 2, {}))
