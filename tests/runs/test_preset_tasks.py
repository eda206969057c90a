"""Run the presets of other pipelines in both harnesses, and compare what is sent and scored with
slow references.
"""

import json
import re

import pytest
from transformers import AutoProcessor, GenerationMixin

from benchmarks.egoplan import published_reference as published
from judge_server import JudgeServer, Reply, images_in
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan, prepare_egoplan_bench2
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_presets
from media.files import SIZE, read_numbers, write_numbered_video
from patience import FOREVER_S
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import in_lm_eval, in_lmms_eval
from runs.harness import log, metric, start

QUESTIONS = 24
VIDEO = "0a1b-2c"
FRAMES = 150
LIMIT = 8
# Replies, and the letters that they claim.
CLAIMED = {
    "Let me see. B": "B",
    "Based on the video, A": "A",
    "Answer: B": "B",
    "<think>A or (D)</think><answer>C</answer>": "C",
    r"\boxed{d}": "D",
    "(B)": "B",
    "a cup": "",
    "B": "B",
}
REPLIES = [*CLAIMED]
by_task = pytest.mark.parametrize(("benchmark", "name"), published.PIPELINES)
# One preset per parser. The last one shows a video file, which the harness's backend for servers
# reads itself.
OF_EACH_PARSER = [
    ("egoplan_bench2", "official"),
    ("egoplan_bench2", "lmms-eval-0.7.3"),
    ("egoplan_bench2", "flageval"),
    ("egoplan_bench2", "physbrain-evalkit"),
    ("egoplan_bench2", "physbrain-evalkit-thinking"),
    ("egoplan", "seed-bench-r1"),
]
OF_A_FILE = ("egoplan_bench2", "mimo")


def record_of(number):
    """Return a question with up to two past actions, whose observation is up to 5 seconds after its
    start.
    """
    first, last = 1 + number % 20, 30 + number % 20 + 7 * (number % 10)
    actions = [(first, first + 8), (first + 9, last)][: (2, 2, 1, 0)[number % 4]]
    choices = [f"{verb} the cup {number}" for verb in ("take", "wash", "fill", "drop")]
    return {
        "sample_id": number,
        "video_source": "Ego4D",
        "video_id": VIDEO,
        "task_goal": ("brew tea", "Making tea.", "The goal is to brew Tea")[number % 3],
        "question": f"What should I do next, question {number}?",
        **{f"choice_{letter}": choice for letter, choice in zip("abcd", choices, strict=True)},
        "golden_choice_idx": "ABCD"[number % 4],
        "answer": choices[number % 4],
        "current_observation_frame": last,
        "task_progress_metadata": [
            {"narration_text": "fill the kettle", "start_frame": start, "stop_frame": stop}
            for start, stop in actions
        ],
    }


def bench2_record_of(number):
    record = record_of(number)
    video = record["video_id"]
    for name in ("video_source", "video_id", "question"):
        del record[name]
    domain = ("Daily life", "Work", "Hobbies", "Recreation")[number % 4]
    extra = {"domain": domain, "scenario": "kitchen", "task_start_frame": number % 20}
    return record | extra | {"sample_id": f"{video}_{number}"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
        for name in (
            "MODEL_VERSION",
            "OPENAI_API_URL",
            "OPENAI_BASE_URL",
            "OPENAI_API_KEY",
            "API_TYPE",
        ):
            patch.delenv(name, raising=False)
        write_numbered_video(folder / "ego4d" / f"{VIDEO}.mp4", FRAMES)
        media = Media({"Ego4D": folder / "ego4d"})
        (folder / "val.json").write_text(
            json.dumps([record_of(number) for number in range(QUESTIONS)])
        )
        prepare_egoplan(folder / "val.json", "val", media)
        (folder / "bench2.json").write_text(
            json.dumps([bench2_record_of(number) for number in range(QUESTIONS)])
        )
        prepare_egoplan_bench2(folder / "bench2.json", media)
        yield folder


@pytest.fixture(scope="module")
def checkpoint(data):
    return save_attentive_answerer(data / "answerer", REPLIES)


def asked(benchmark):
    """Return the records by sample id, as the references expect them."""
    make = record_of if benchmark == "egoplan" else bench2_record_of
    records = [make(number) for number in range(QUESTIONS)]
    if benchmark == "egoplan_bench2":
        records = [record | {"question": published.QUESTION.format(**record)} for record in records]
    return {record["sample_id"]: record for record in records}


@pytest.fixture
def calls(monkeypatch):
    """Record the arguments of each call of transformers' `generate`, which then generates few
    tokens.
    """
    recorded = []
    generate = GenerationMixin.generate

    def recording(self, *args, **kwargs):
        recorded.append(kwargs)
        return generate(self, *args, **kwargs | {"max_new_tokens": 4})

    monkeypatch.setattr(GenerationMixin, "generate", recording)
    return recorded


def assert_scored(run, task, benchmark, name):
    """Compare letters and scores of the stored replies with the reference."""
    records, right, misread = asked(benchmark), [], 0
    assert len(run.samples[task]) == QUESTIONS
    for sample in run.samples[task]:
        values = sample["details"]["predictions"]
        reply = "".join(sample["filtered_resps"])
        # thoughts are kept
        assert reply == "".join(part for parts in sample["resps"] for part in parts)
        letter = published.PIPELINE_LETTERS[name](reply)
        assert (values["prediction"] or "") == letter
        right.append(letter == records[values["sample_id"]]["golden_choice_idx"])
        misread += letter != CLAIMED.get(reply, letter)
    details = run.details[task]
    assert metric(run.results[task], "acc") == pytest.approx(sum(right) / QUESTIONS)
    assert details["num_questions"] == QUESTIONS
    unknown = load_presets(benchmark)[name].open_fields
    assert details["unknown_fields"].startswith(", ".join(unknown) or ("none", "video"))
    return misread


def assert_sampling(call, name):
    """Compare the arguments as passed to `generate` with the reference."""
    limit, samples, arguments = published.SAMPLING[name]
    assert call["max_new_tokens"] == limit
    assert call.get("do_sample") is samples
    assert ("do_sample" in call) == (samples is not None)
    passed = {
        key: call.get(key)
        for key in ("temperature", "top_p", "top_k", "repetition_penalty", "num_beams")
    }
    assert {key: value for key, value in passed.items() if value is not None} == arguments


@pytest.mark.parametrize(
    ("benchmark", "name"),
    [
        pytest.param(
            *pipeline, marks=pytest.mark.whole if pipeline == OF_A_FILE else pytest.mark.nightly
        )
        for pipeline in published.PIPELINES
    ],
)
def test_hf_vlm_gets_prompt_media_and_sampling(data, checkpoint, calls, benchmark, name):
    task = f"{benchmark}__{name}"
    run = in_lmms_eval(checkpoint, task, batch_size=16)
    assert_scored(run, task, benchmark, name)
    assert "shown as images" not in run.details[task]["unknown_fields"]
    assert calls
    tokens = []
    for call in calls:
        assert_sampling(call, name)
        tokens += call["input_ids"].tolist()
    texts = [AutoProcessor.from_pretrained(checkpoint).tokenizer.decode(ids) for ids in tokens]
    assert len(texts) == QUESTIONS
    for record in asked(benchmark).values():
        (text,) = (
            text for text in texts if published.PROMPTS[benchmark, name](record).strip() in text
        )
        kind, frames, separate = published.media_of(name, record, 30)
        videos = text.count("<|vision_start|><|video_pad|>")
        images = text.count("<|vision_start|><|image_pad|>")
        if kind == "images":
            assert (videos, images) == (0, len(frames) + len(separate))
        elif kind == "file":  # a video of one frame is an image
            is_video = published.first_frame(record) < record["current_observation_frame"]
            assert (videos, images) == (int(is_video), int(not is_video))
        else:
            assert (videos, images) == (int(bool(frames)), len(separate))


@pytest.mark.whole
@pytest.mark.usefixtures("data")
def test_a_server_gets_what_each_parser_expects():
    presets = [
        preset for name in ("egoplan", "egoplan_bench2") for preset in load_presets(name).values()
    ]
    tested = {
        load_presets(benchmark)[name].parser for benchmark, name in [*OF_EACH_PARSER, OF_A_FILE]
    }
    assert tested == {preset.parser for preset in presets} - {LIKELIHOOD}
    for benchmark, name in OF_EACH_PARSER:
        assert_server_gets_prompt_frames_and_sampling(benchmark, name)


@pytest.mark.nightly
@by_task
@pytest.mark.usefixtures("data")
def test_a_server_gets_prompt_frames_and_sampling(benchmark, name):
    if load_presets(benchmark)[name].media["media"] == "video":
        pytest.skip("the harness's backend reads the file")
    assert_server_gets_prompt_frames_and_sampling(benchmark, name)


def assert_server_gets_prompt_frames_and_sampling(benchmark, name):
    task = f"{benchmark}__{name}"
    with JudgeServer(
        lambda prompt, _: Reply(REPLIES[int(re.search(r"cup (\d+)", prompt)[1]) % len(REPLIES)])
    ) as server:
        run = in_lmms_eval(
            f"model=tiny,base_url={server.url},api_key=none,max_retries=1", task, model="openai"
        )
    assert assert_scored(run, task, benchmark, name)
    limit, _, arguments = published.SAMPLING[name]
    sent = dict(zip(server.prompts, server.bodies, strict=True))
    assert len(sent) == QUESTIONS
    for record in asked(benchmark).values():
        body = sent[published.PROMPTS[benchmark, name](record)]
        _, frames, separate = published.media_of(name, record, 30)
        assert read_numbers([image.resize(SIZE) for image in images_in(body)]) == [
            *frames,
            *separate,
        ]
        assert (body["max_tokens"], body["temperature"]) == (limit, arguments.get("temperature", 0))
    as_images = "video (shown as images)" in run.details[task]["unknown_fields"]
    assert as_images == (name == "seed-bench-r1")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["flageval", "seed-bench-r1", "mimo", "physbrain-evalkit"])
def test_lm_eval_gives_the_same(data, checkpoint, calls, name):
    benchmark, task = "egoplan_bench2", f"egoplan_bench2__{name}"
    # the published limit exceeds the tiny context
    settings = {
        "gen_kwargs": {"max_gen_toks": LIMIT},
        "batch_size": 16,
    }
    run = in_lm_eval(checkpoint, task, **settings)
    assert_scored(run, task, benchmark, name)
    assert calls
    # lm-eval's own code generates, and never leaves sampling to the checkpoint.
    assert {bool(call.get("do_sample")) for call in calls} == {name == "seed-bench-r1"}
    assert {call.get("repetition_penalty", 1.0) for call in calls} == {
        1.05 if name == "physbrain-evalkit" else 1.0
    }
    is_images = load_presets(benchmark)[name].media["media"] == "frames"
    assert ("video (shown as images)" in run.details[task]["unknown_fields"]) != is_images
    if name == "physbrain-evalkit":  # greedy, on images in both harnesses
        lmms_run = in_lmms_eval(checkpoint, task, batch_size=16)
        assert metric(lmms_run.results[task], "acc") == metric(run.results[task], "acc")


@pytest.mark.nightly
def test_the_official_preset_ranks_like_the_published_task(data, checkpoint):
    for evaluate in (in_lmms_eval, in_lm_eval):
        run = evaluate(checkpoint, "egoplan__official", "egoplan_val_published", limit=9)
        preset, task = (
            run.samples[name] for name in ("egoplan__official", "egoplan_val_published")
        )
        assert [sample["details"]["predictions"] for sample in preset] == [
            sample["details"]["predictions"] for sample in task
        ]
        assert run.details["egoplan__official"]["unknown_fields"] == "none"


@pytest.mark.nightly
def test_a_backend_that_does_not_score_the_end_is_refused(data):
    process = start(data, "--model", "qwen2_5_vl", "--tasks", "egoplan__official")
    process.wait(FOREVER_S)
    assert "egoplan__official: qwen2_5_vl does not score the end" in log(data)
