"""Compare presets with answers of the published pipelines' own code."""

import json
import os
import runpy
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks import pipelines
from benchmarks.egoplan import published_reference as published
from benchmarks.egoplan.test_presets import Numbered, as_doc, media_shown
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import tuned_question
from lmms_egoplan.benchmarks.egoplan.published import clips_as_published
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.benchmarks.egoplan.published_scores import (
    score_preset,
    score_published_clips,
    score_published_video,
)
from lmms_egoplan.benchmarks.egoplan.rank import rank
from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.judge import judge_prompt
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.egothink.presets import load_presets as load_presets_of_egothink
from lmms_egoplan.benchmarks.egothink.presets import preset_block
from lmms_egoplan.benchmarks.egothink.prompts import prompt_messages, read_reply
from lmms_egoplan.ranking.loglikelihood import Loglikelihood

CONTENT = json.loads(pipelines.GOLDEN.read_text(encoding="utf-8"))
INPUTS, ANSWERS = CONTENT["inputs"], CONTENT["answers"]
CHOSEN = [
    name
    for name in ANSWERS
    if name.partition("/")[0] in ("egoplan", "egoplan_bench2") and "clips" not in name
]
FOLDER = os.environ.get("PIPELINES")
TOOL = Path(__file__).parents[2] / "tools" / "pipelines.py"
VERDICTS = Path(__file__).with_name("golden_verdicts.yaml")


def docs(benchmark):
    """Return the questions as rows of the prepared data."""
    return [as_doc(benchmark, record) for record in INPUTS[benchmark]]


def preset_of(name):
    benchmark, _, preset = name.partition("/")
    return load_presets(benchmark)[preset]


@pytest.mark.parametrize("name", CHOSEN)
def test_prompts_are_the_pipelines(name):
    preset = preset_of(name)
    prompts = [pipelines.digest(prompt_of(preset, doc)) for doc in docs(preset.benchmark)]
    theirs = ANSWERS[name]["prompts"]
    assert [ours if other else None for ours, other in zip(prompts, theirs, strict=True)] == theirs


@pytest.mark.parametrize("name", [name for name in CHOSEN if "frames" in ANSWERS[name]])
def test_frames_are_the_pipelines(name, monkeypatch):
    preset, rates = preset_of(name), pipelines.VIDEOS
    monkeypatch.setattr(
        "lmms_egoplan.benchmarks.egoplan.frames.frames_per_second", lambda _, video: rates[video]
    )
    media = [
        media_shown(preset.benchmark, preset.name, record) for record in INPUTS[preset.benchmark]
    ]
    theirs = ANSWERS[name]["frames"]
    failed = [frames is None for frames in theirs]
    ours = [
        None if is_failed else frames
        for is_failed, (_, frames, _) in zip(failed, media, strict=True)
    ]
    assert ours == theirs
    for kinds, (_, frames, separate) in zip(ANSWERS[name].get("media", ()), media, strict=False):
        assert kinds == ["video"] * bool(frames) + ["image"] * len(separate)


@pytest.mark.parametrize("name", CHOSEN)
def test_letters_are_the_pipelines(name):
    preset = preset_of(name)
    if preset.parser == LIKELIHOOD:
        letters = [best_letter(losses) for losses in INPUTS["losses"]]
    else:
        letters = [READERS[preset.parser](reply) or "" for reply in INPUTS["replies"]]
    # A character that is no capital letter is as wrong as none.
    assert letters == [
        letter if "A" <= letter <= "Z" else "" for letter in ANSWERS[name]["letters"]
    ]


def best_letter(losses):
    scores = [Loglikelihood(loss, 4, is_greedy=False) for loss in losses]
    return "ABCD"[rank(scores, ["w", "x", "y", "z"]).by_mean]


@pytest.mark.parametrize("name", [name for name in CHOSEN if "decoding" in ANSWERS[name]])
def test_decoding_is_the_pipelines(name):
    assert ANSWERS[name]["decoding"].items() <= preset_of(name).decoding.items()


def test_clips_are_the_authors():
    """No frame differs. Questions on which the authors' code fails are named, without accuracy."""
    theirs = ANSWERS["egoplan/clips"]
    failed = []
    for doc, prompt, frames in zip(
        docs("egoplan"), theirs["prompts"], theirs["frames"], strict=True
    ):
        assert pipelines.digest(tuned_question(doc)) == prompt
        clips = clips_as_published(doc)
        shown = [image.number for image in Numbered("egoplan").visual_input(doc, CLIPS)]
        assert shown == [
            *(number for clip in clips.frames for number in clip),
            doc["current_observation_frame"],
        ]
        assert clips.authors_fail == (frames is None), doc
        assert frames in (None, clips.frames), doc
        assert (published.clips(doc), published.authors_fail(doc)) == (
            clips.frames,
            clips.authors_fail,
        )
        failed += [doc["sample_id"]] if frames is None else []
        values = score_published_clips(doc, CLOSED)
        details = values["details"]
        assert details["authors_fail"] is (frames is None)
        assert details["authors_fail_ids"] == (doc["sample_id"] if frames is None else None)
        assert ("acc" in values) == values["coverage"]["scored"] == (frames is not None)
        passes = frames is not None and any(
            n > doc["current_observation_frame"] for clip in frames for n in clip
        )
        assert ("acc_within" in values) == (frames is not None and not passes)
        assert frames is None or details["past_observation"] is passes
    assert 5 < len(failed) < 20


CLIPS = {"media": "clip_frames", "num_clips": 4, "frames_per_clip": 8, "as_published": True}
CLOSED = [
    (
        f'{{"loss": {loss}, "num_tokens": 4, "is_greedy": false, "use": {{"path": "packed", '
        '"kind": "image"}}'
    )
    for loss in (2.0, 1.0, 3.0, 4.0)
]


def test_a_video_at_which_the_authors_code_fails_is_named_and_not_scored():
    frames = ANSWERS["egoplan/official"]["frames"]
    assert 0 < frames.count(None) < 5
    for doc, shown in zip(docs("egoplan"), frames, strict=True):
        assert published.video_fails(doc) == (shown is None)
        for values in (
            score_published_video(doc, CLOSED),
            score_preset("egoplan", "official", doc, CLOSED),
        ):
            failed_id = doc["sample_id"] if shown is None else None
            assert values["details"]["authors_fail_ids"] == failed_id
            assert ("acc" in values) == values["coverage"]["scored"] == (shown is not None)


def test_egothink_asks_and_cuts_like_the_authors():
    theirs, preset = ANSWERS["egothink/official"], load_presets_of_egothink()["official"]
    messages = [
        prompt_messages(x["question"], "", preset_block("official", x["dimension"]))
        for x in INPUTS["egothink"]
    ]
    assert [
        pipelines.digest(json.dumps(pipelines.as_texts(turns))) for turns in messages
    ] == theirs["prompts"]
    block = preset_block("official", "activity")
    assert [read_reply(answer, block) for answer in INPUTS["answers"]] == theirs["answers"]
    protocol, messages = PROTOCOLS["authors"], []
    for question, text in zip(INPUTS["egothink"], INPUTS["answers"], strict=False):
        answer = Answer(
            "existence/1", question["question"], "The {reference}. [1]", text, truncated=False
        )
        asked = judge_prompt(answer, "sanitized", protocol)
        messages.append(
            pipelines.digest(json.dumps([["system", protocol.system], ["user", asked]]))
        )
    assert messages == theirs["judge_messages"]
    assert {**protocol.parameters, "max_tokens": protocol.max_tokens} == theirs["judge_arguments"]
    for question in INPUTS["egothink"]:
        decoding = preset.of_dimension(question["dimension"]).decoding
        assert decoding["temperature"] == theirs["decoding"]["temperature"]


def test_the_tool_checks_out_a_commit(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "checkout"
    git = (
        "git",
        "-C",
        str(source),
        "-c",
        "user.name=x",
        "-c",
        "user.email=x",
        "-c",
        "commit.gpgsign=false",
    )
    subprocess.run(["git", "init", "--quiet", str(source)], check=True)
    for text in ("first", "second"):
        (source / "file").write_text(text)
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", text], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD~1"], text=True).strip()
    subprocess.run([*git, "config", "uploadpack.allowAnySHA1InWant", "true"], check=True)
    tool = runpy.run_path(str(TOOL))
    for _ in range(2):
        tool["check_out"](folder, source.as_uri(), commit)
        assert (folder / "file").read_text() == "first"
    named = {
        address.rpartition("/")[2]: commit for address, commit in tool["REPOSITORIES"].values()
    }
    presets = [
        preset
        for benchmark in ("egoplan", "egoplan_bench2")
        for preset in load_presets(benchmark).values()
    ]
    sources = [preset.source for preset in presets] + [
        preset.source for preset in load_presets_of_egothink().values()
    ]
    by_commit = [source for source in sources if "commit" in source]
    assert by_commit
    for source in by_commit:
        repository, _, rest = source.partition(", commit ")
        assert named[repository.rpartition("/")[2]].startswith(rest.split(",")[0]), source


@pytest.mark.nightly
@pytest.mark.skipif(
    FOLDER is None, reason="needs PIPELINES, a folder of checkouts by tools/pipelines.py"
)
@pytest.mark.parametrize("name", pipelines.PIPELINES)
def test_golden_answers_are_the_pipelines(name):
    answers = pipelines.PIPELINES[name](Path(FOLDER), INPUTS)
    assert json.loads(json.dumps(answers)) == ANSWERS[name]


@pytest.mark.nightly
@pytest.mark.skipif(
    FOLDER is None, reason="needs PIPELINES, a folder of checkouts by tools/pipelines.py"
)
def test_golden_verdicts_are_the_authors():
    """Of complete replies without thinking. A rating above 1 counts as none."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows = [
        row
        for row in yaml.load(VERDICTS.read_text(encoding="utf-8"), loader)
        if row["benchmark"] == "egothink"
    ]
    rows = [
        row
        for row in rows
        if row["finish"] == "stop" and row["kind"] not in ("thinking", "cut off", "refusal")
    ]
    assert len(rows) > 350
    ratings = pipelines.judged(Path(FOLDER), [row["reply"] for row in rows])
    for row, rating in zip(rows, ratings, strict=True):
        assert row["authors"] == (rating if 0 <= rating <= 1 else None), row["id"]
