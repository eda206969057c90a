"""The backend's two request types on tiny checkpoints, compared with independent passes."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from lmms_eval.api.instance import unwrap_generation_output
from PIL import Image

from benchmarks.egoplan.test_visuals import row
from harnesses.lmms_eval.small_requests import generate, generation_requests, ranking_requests
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.lmms_eval.response_cache import ModelCache
from lmms_egoplan.media.frames import Clip, read_frame_folder, read_video_frames
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood
from lmms_egoplan.ranking.question import ContextTooLongError
from media.files import damage_packet, number_image, read_numbers, write_numbered_video
from patience import FOREVER_S
from ranking.reference import reference_loss, user_turn
from zoo import build, save

FAMILIES = ["llava", "qwen2_5_vl", "blip2"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: str(save(name, folder / name)) for name in [*FAMILIES, "llava_onevision"]}


def picture(number):
    """Return a picture, not square, whose colours differ from those of every other number."""
    return Image.effect_mandelbrot((70, 50), (-2, -1.5, 1, 1.5 - number / 10), 60).convert("RGB")


QUESTIONS = [
    {"text": "Which action should come next?", "visuals": [picture(0)]},
    {"text": "Take the mug from the shelf, rinse the mug, and then what?", "visuals": [picture(1)]},
    {"text": "Next?", "visuals": [picture(2)]},
    {"text": "Which of the two?", "visuals": [picture(3), picture(4)]},
    {
        "text": "Close the fridge, or take the milk out of the fridge?",
        "visuals": [picture(5), picture(6)],
    },
    {"text": "No picture here: what comes after the milk?", "visuals": []},
    {"text": "Nor here.", "visuals": []},
]
CHOICES = ["take the mug", "take the mug and rinse it", "sauté the onion", "pour water"]


@pytest.mark.parametrize("name", FAMILIES)
def test_batches_answer_as_single_questions_do(checkpoint, name):
    questions = QUESTIONS[:5] if name == "blip2" else QUESTIONS
    one_by_one, batched = (
        generate(
            HFVLM(checkpoint[name], dtype="float32", batch_size=size), questions, max_new_tokens=6
        )
        for size in (1, 3)
    )
    assert batched == one_by_one
    assert len(set(batched)) > 1


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_those_of_greedy_decoding(checkpoint, name):
    model, processor = build(name)
    question = QUESTIONS[3]
    if processor.chat_template is None:
        question = QUESTIONS[0]
        inputs = processor(text=question["text"], images=question["visuals"], return_tensors="pt")
    else:
        inputs = processor.apply_chat_template(
            user_turn(question["text"], question["visuals"]),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
    output = model.generate(**inputs, max_new_tokens=8, do_sample=False)[0]
    answer = output if processor.chat_template is None else output[inputs["input_ids"].shape[1] :]
    expected = processor.tokenizer.decode(answer, skip_special_tokens=True)
    assert generate(HFVLM(checkpoint[name], dtype="float32"), [question], max_new_tokens=8) == [
        expected
    ]


def test_an_answer_ends_at_the_first_stop_string_and_at_its_length(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32", batch_size=4)
    docs = QUESTIONS[:3]
    free = generate(model, docs, max_new_tokens=20)
    stop = free[0][len(free[0]) // 2 :][:2]
    cut = [text.split(stop)[0] for text in free]
    assert cut[0] != free[0]
    assert generate(model, docs, max_new_tokens=20, until=stop) == cut
    assert generate(model, docs, max_new_tokens=20, until=["never generated", stop]) == cut
    for result in model.generate_until(generation_requests(model, docs, max_new_tokens=5)):
        assert result.token_counts.output_tokens == 5


def test_arguments_of_each_request_are_its_own(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32", batch_size=4)
    short, long = (generation_requests(model, QUESTIONS[:2], max_new_tokens=n) for n in (2, 9))
    mixed = [result.text for result in model.generate_until([short[0], long[0], long[1], short[1]])]
    assert mixed[1].startswith(mixed[0])
    assert mixed[2].startswith(mixed[3])
    assert len(mixed[1]) > len(mixed[0])


def test_sampling_only_if_requested(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32")
    greedy = generate(model, QUESTIONS[:1], max_new_tokens=12)
    assert (
        generate(model, QUESTIONS[:1], max_new_tokens=12, temperature=0, do_sample=False) == greedy
    )
    assert generate(model, QUESTIONS[:1], max_new_tokens=12, temperature=50.0, top_p=1.0) != greedy


@pytest.mark.parametrize(
    "name", ["qwen2_5_vl", "llava", pytest.param("llava_onevision", marks=pytest.mark.nightly)]
)
def test_images_videos_and_their_paths(checkpoint, name, tmp_path):
    picture(0).save(tmp_path / "image.png")
    path = write_numbered_video(tmp_path / "video.mp4", 9)
    frames = Clip(read_video_frames(path, [0, 4, 8]), 7.5)
    assert read_numbers(frames) == [0, 4, 8]
    text = "Which action should come next?"
    docs = [
        {"text": text, "visuals": visuals}
        for visuals in (
            [picture(0)],
            [str(tmp_path / "image.png")],
            [str(path)],
            [frames],
            [read_video_frames(path, range(9))],
            [frames, picture(0)],
            [frames[:2]],
        )
    ]
    for size in (1, 4):
        model = HFVLM(checkpoint[name], dtype="float32", batch_size=size, max_frames_num=3)
        answers = generate(model, docs, max_new_tokens=8)
        assert answers[0] == answers[1]
        assert answers[2] == answers[3]  # from the file, the three frames that the task has chosen
        assert answers[4] != answers[3]  # frames chosen by a task are never subsampled
        assert len({answers[0], answers[2], *answers[5:]}) > 1


def test_dialogues_are_not_supported(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32")
    with pytest.raises(NotImplementedError, match="generate_until_multi_round"):
        model.generate_until_multi_round([])


@pytest.mark.parametrize(
    "name", ["qwen2_5_vl", "blip2", pytest.param("llava", marks=pytest.mark.nightly)]
)
def test_losses_are_those_of_full_passes(checkpoint, name):
    model = HFVLM(checkpoint[name], dtype="float32")
    docs = [
        {
            "text": "Which action should come next?",
            "visuals": [picture(0), picture(1)],
            "choices": CHOICES,
        },
        {
            "text": "And then?",
            "visuals": [picture(2)],
            "choices": [" pour water", "pour water ", "wash"],
        },
    ]
    responses = list(model.loglikelihood(ranking_requests(model, docs)))
    expected = [
        reference_loss(name, user_turn(doc["text"], doc["visuals"]), choice.strip())
        for doc in docs
        for choice in doc["choices"]
    ]
    # the two that differ by a space
    assert len({round(loss, 4) for loss, _ in expected}) == len(expected) - 1
    for response, (loss, num_tokens) in zip(responses, expected, strict=True):
        text, _ = unwrap_generation_output(response)
        score = parse_loglikelihood(text)
        assert score.loss == pytest.approx(loss, abs=1e-4)
        assert score.num_tokens == num_tokens
        assert tuple(text) == (score.loss, score.is_greedy)  # as the harness's own scoring reads it


def test_is_greedy_matches_greedy_decoding(checkpoint):
    model = HFVLM(checkpoint["qwen2_5_vl"], dtype="float32")
    doc = {"text": "Which action should come next?", "visuals": [picture(0)]}
    (answer,) = generate(model, [doc], max_new_tokens=1)
    requests = ranking_requests(model, [doc | {"choices": [answer, "pour water"]}])
    scores = [parse_loglikelihood(response.text) for response in model.loglikelihood(requests)]
    assert [score.is_greedy for score in scores] == [True, False]
    assert scores[0].num_tokens == 1


def test_score_eos_adds_the_end_of_turn(checkpoint):
    doc = {"text": "What next?", "visuals": [picture(0)], "choices": CHOICES[:2]}
    model = HFVLM(checkpoint["llava"], dtype="float32", score_eos=True)
    for choice, response in zip(
        CHOICES, model.loglikelihood(ranking_requests(model, [doc])), strict=False
    ):
        loss, num_tokens = reference_loss(
            "llava", user_turn(doc["text"], doc["visuals"]), choice, True
        )
        score = parse_loglikelihood(response.text)
        assert (score.loss, score.num_tokens) == (pytest.approx(loss, abs=1e-4), num_tokens)


@pytest.mark.parametrize("batch_size", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_missing_frame_raises_at_its_question(checkpoint, tmp_path, batch_size):
    def visuals(doc):
        return read_frame_folder(tmp_path, doc["frames"])

    number_image(1).save(tmp_path / "frame_0000000001.jpg")
    docs = [
        {"text": "What?", "visuals": None, "choices": CHOICES, "frames": [n]}
        for n in (1, 1, 1, 1, 7, 1)
    ]
    model = HFVLM(checkpoint["llava"], dtype="float32", batch_size=batch_size)
    for requests, answer in (
        (ranking_requests(model, docs), model.loglikelihood),
        (generation_requests(model, docs, max_new_tokens=2), model.generate_until),
    ):
        for request in requests:
            context, second, _, *rest = request.arguments
            request.arguments = (context, second, visuals, *rest)
        finished = []
        with pytest.raises(LmmsEgoplanError, match=r"question small/4: .*frame_0000000007\.jpg"):
            finished.extend(answer(requests))
        assert len(finished) >= len(requests) // 2


def test_frames_that_do_not_fit_raise_with_both_lengths(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32", batch_size=2)
    docs = [
        {"text": "What?", "visuals": [picture(0)] * count, "choices": CHOICES} for count in (1, 200)
    ]
    pattern = r"question small/1: .*3\d\d\d tokens.* 2048 positions"
    with pytest.raises(ContextTooLongError, match=pattern):
        list(model.loglikelihood(ranking_requests(model, docs)))
    with pytest.raises(ContextTooLongError, match=pattern):
        generate(model, docs, max_new_tokens=2)


def test_unfinished_runs_of_one_model_share_a_cache_folder(checkpoint, tmp_path, monkeypatch):
    def run_id(name, **arguments):
        responses = ModelCache.create(str(tmp_path))
        opened = responses.opened(HFVLM(checkpoint[name], **arguments))
        responses.finalize(success=False)
        return opened._run_id

    first = run_id("llava", dtype="float32")
    assert run_id("llava", dtype="float32", batch_size=4) == first
    assert (
        len({first, run_id("llava", dtype="bfloat16"), run_id("qwen2_5_vl", dtype="float32")}) == 3
    )
    assert "LMMS_CACHE_RUN_ID" not in os.environ
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "mine")
    assert run_id("llava") == "mine"


def test_continuations_may_be_functions_of_the_document(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32")
    docs = [{"text": "What next?", "visuals": [picture(0)], "choices": CHOICES}]
    expected = [
        parse_loglikelihood(r.text).loss for r in model.loglikelihood(ranking_requests(model, docs))
    ]
    requests = ranking_requests(model, docs)
    for request, choice in zip(requests, CHOICES, strict=True):
        context, _, *rest = request.args
        request.arguments = (context, lambda doc, choice=choice: choice, *rest)
    losses = [parse_loglikelihood(response.text).loss for response in model.loglikelihood(requests)]
    assert losses == pytest.approx(expected, abs=1e-4)


def test_errors_name_the_record(checkpoint):
    model = HFVLM(checkpoint["llava"], dtype="float32")
    docs = [{"sample_id": 115, "text": "What?", "visuals": [picture(0)] * 200, "choices": CHOICES}]
    with pytest.raises(ContextTooLongError, match=r"question small/0 \(sample_id 115\): "):
        list(model.loglikelihood(ranking_requests(model, docs)))


@pytest.mark.parametrize("requests_of", [ranking_requests, generation_requests])
def test_a_damaged_frame_names_its_record_once(checkpoint, tmp_path, requests_of):
    model = HFVLM(checkpoint["llava"], dtype="float32")
    path = damage_packet(write_numbered_video(tmp_path / "v.mp4", 48), 13)
    docs = [
        row("Ego4D", path, 23, (0, 20))
        | {"sample_id": 115, "text": "What?", "visuals": [], "choices": CHOICES}
    ]
    requests = requests_of(model, docs)
    show = partial(EGOPLAN.visual_input, settings={"media": "frames", "num_frames": 24})
    for request in requests:
        request.arguments = (*request.arguments[:2], show, *request.arguments[3:])
    answers = model.loglikelihood if requests_of is ranking_requests else model.generate_until
    with pytest.raises(
        LmmsEgoplanError, match=r"question small/0: sample_id 115: .*v\.mp4"
    ) as raised:
        list(answers(requests))
    assert str(raised.value).count("sample_id 115") == 1


def test_batch_size_must_be_a_number(checkpoint):
    with pytest.raises(ValueError, match=r"batch_size=auto"):
        HFVLM(checkpoint["llava"], batch_size="auto")


def answer_to(generator, messages, new_tokens):
    request = SimpleNamespace(args=("", {"max_new_tokens": new_tokens}))
    ((_, answer, _),) = generator.answers(
        [request], lambda _: (messages, "q"), lambda _: "q", 1, {}, 1
    )
    return answer


@pytest.mark.parametrize("name", ["blip2", "blip2_opt", "instructblip", "instructblip_vicuna"])
def test_models_that_require_pixels_answer_text_questions(name):
    model, processor = build(name)
    answers = AnswerGenerator(model, processor)
    for images in ([], [picture(0)]):
        answer = answer_to(answers, user_turn("What next?", images), 4)
        assert 1 <= answer.output_tokens <= 4


def test_only_truncated_answers_reach_the_token_limit(monkeypatch):
    model, processor = build("llava")
    answers = AnswerGenerator(model, processor)
    messages = user_turn("What next?", [picture(0)])
    free = answer_to(answers, messages, 6)
    prompt = processor.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    tokens = model.generate(**prompt, max_new_tokens=6, do_sample=False)[
        0, prompt["input_ids"].shape[1] :
    ].tolist()
    assert free.output_tokens == 6
    end = next(index for index in range(1, 6) if tokens[index] not in tokens[:index])
    monkeypatch.setattr(model.generation_config, "eos_token_id", [tokens[end]])
    for limit in (end, end + 1, end + 2):
        assert answer_to(answers, messages, limit).output_tokens == end


# One of several processes, as started by a launcher. The exit handler registered first runs last.
ONE_PROCESS = """
import atexit, sys
import torch.distributed as dist

atexit.register(lambda: print(dist.is_initialized()))
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM

HFVLM(sys.argv[1])
print(dist.is_initialized())
"""


@pytest.mark.nightly
def test_a_process_without_the_command_leaves_its_group_at_exit(checkpoint):
    """As after an evaluation from Python, or after an error."""
    launched = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    environment = os.environ | launched | {"ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-c", ONE_PROCESS, checkpoint["llava"]]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=FOREVER_S, check=True
    )
    assert done.stdout.split()[-2:] == ["True", "False"]
