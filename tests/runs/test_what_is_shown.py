"""Check the inputs of transformers' ``generate`` for EgoIntent and EgoThink in both harnesses, and
their logs.
"""

import os

import pytest
import torch
from transformers import AutoProcessor, GenerationMixin

from benchmarks.egointent.source import raw_record, write_annotations, write_videos
from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.egothink.prompts import FAMILIES
from lmms_egoplan.task_files import task_paths
from runs.both_harnesses import in_lm_eval, in_lmms_eval, records
from runs.harness import _JUDGE
from zoo import save
from zoo.prompts import VICUNA

STEPS = [
    raw_record(1, end_sec=1.5),
    raw_record(2, end_sec=3.9),
    raw_record(3, end_sec=1.6),
    raw_record(4, end_sec=2.15),
]
FRAMES = [6, 18, 1, 1]
SHORT, PLANNING = "egothink_object_existence", "egothink_planning_assistance"
LLAVA = next(family for family in FAMILIES if family.is_system)
NO_SYSTEM_TURN = VICUNA.replace(
    "{% for message in messages %}",
    (
        "{% for message in messages %}{% if message['role'] == 'system' %}{{ "
        "raise_exception('no system') }}{% endif %}"
    ),
    1,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(_JUDGE):
                patch.delenv(name)
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
        prepare_egothink(write_source(folder / "source", 2))
        prepare_egointent(
            write_annotations(folder / "steps.jsonl", STEPS), write_videos(folder / "videos")
        )
        yield folder


@pytest.fixture(scope="module")
def checkpoint(data):
    return lambda name: data / name if (data / name).exists() else save(name, data / name)


@pytest.fixture
def batches(monkeypatch):
    """Return the list of inputs, one entry per batch."""
    inputs = []
    generate = GenerationMixin.generate

    def record(self, *args, **kwargs):
        inputs.append({name: value for name, value in kwargs.items() if torch.is_tensor(value)})
        return generate(self, *args, **kwargs)

    monkeypatch.setattr(GenerationMixin, "generate", record)
    return inputs


def logged(run, task="egointent", entry="step", name="media"):
    """Return a logged value by ID; by default, the media of EgoIntent's steps."""
    return {identifier: record[name] for identifier, record in records(run, task, entry).items()}


def texts(folder, batches):
    """Return the sorted prompts. Repeated image tokens become one <image>."""
    tokenizer = AutoProcessor.from_pretrained(folder).tokenizer
    prompts = [
        row.replace("<pad>", "")
        for batch in batches
        for row in tokenizer.batch_decode(batch["input_ids"])
    ]
    return sorted({_once(prompt, "<image>") for prompt in prompts})


def _once(text, token):
    while token * 2 in text:
        text = text.replace(token * 2, token)
    return text


def in_lmms(folder, *tasks, **settings):
    return in_lmms_eval(folder, *tasks, gen_kwargs="max_new_tokens=4", batch_size=2, **settings)


def in_lm(folder, *tasks, **settings):
    return in_lm_eval(folder, *tasks, gen_kwargs={"max_gen_toks": 4}, batch_size=2, **settings)


@pytest.mark.whole
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_steps_are_videos_with_their_rate_if_the_model_accepts_video(
    data, checkpoint, batches, run
):
    done = run(checkpoint("qwen2_5_vl"), "egointent")
    expected = {f"s{n}": "video" if count > 1 else "images" for n, count in enumerate(FRAMES, 1)}
    assert logged(done) == expected
    assert done.details["egointent"]["media"] == "images (2), video (2)"
    videos = [batch for batch in batches if "pixel_values_videos" in batch]
    assert sum(len(batch["input_ids"]) for batch in videos) == 2
    assert sum(len(batch["input_ids"]) for batch in batches) == 4
    grids = sorted(int(grid[0]) for batch in videos for grid in batch["video_grid_thw"])
    assert grids == [3, 9]  # pairs of 6 and of 18 frames
    for batch in videos:
        assert batch["second_per_grid_ts"].tolist() == pytest.approx(
            [2 / 6] * len(batch["input_ids"])
        )
    assert sum(len(batch["input_ids"]) for batch in batches if "pixel_values" in batch) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_steps_are_images_if_the_model_does_not_accept_video(data, checkpoint, batches, run):
    done = run(checkpoint("llava"), "egointent")
    assert set(logged(done).values()) == {"images"}
    assert done.details["egointent"]["media"] == "images"
    assert sum(len(batch["pixel_values"]) for batch in batches) == sum(FRAMES)


@pytest.mark.nightly
def test_both_harnesses_give_the_same_answers_to_videos(data, checkpoint):
    folder = checkpoint("qwen3_vl")
    lmms_replies, lm_replies = (
        logged(run(folder, "egointent"), name="reply") for run in (in_lmms, in_lm)
    )
    assert lmms_replies == lm_replies
    assert len(set(lm_replies.values())) > 1


@pytest.mark.nightly
def test_subsampled_steps_have_a_lower_rate(data, checkpoint, batches):
    done = in_lm(checkpoint("qwen2_5_vl"), "egointent", metadata={"max_frames": 4})
    rates = sorted(float(rate) for batch in batches for rate in batch.get("second_per_grid_ts", ()))
    # 4 of 6 frames in 5/6 s, 4 of 18 in 17/6 s.
    assert rates == pytest.approx([2 / (6 * 3 / 5), 2 / (6 * 3 / 17)])
    assert set(logged(done, name="frames_shown").values()) == {1, 4}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "settings", [{"metadata": {"media": "frames"}}, {"model": "hf-multimodal"}]
)
def test_lm_eval_shows_images_on_request_and_to_stock_models(data, checkpoint, batches, settings):
    done = in_lm(checkpoint("qwen2_5_vl"), "egointent", **settings)
    assert set(logged(done).values()) == {"images"}
    assert not any("pixel_values_videos" in batch for batch in batches)


@pytest.mark.nightly
def test_lm_eval_rejects_unknown_media(data, checkpoint):
    with pytest.raises(ValueError, match=r"egointent: .*media=movie: .*clip, frames"):
        in_lm(checkpoint("qwen2_5_vl"), "egointent", metadata={"media": "movie"})


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_cached_answers_record_the_media(data, checkpoint, batches, tmp_path, run):
    first = run(checkpoint("qwen2_5_vl"), "egointent", use_cache=str(tmp_path / "cache"))
    asked = len(batches)
    again = run(checkpoint("qwen2_5_vl"), "egointent", use_cache=str(tmp_path / "cache"))
    assert asked == len(batches) > 0
    assert logged(again) == logged(first)
    assert logged(again, name="reply") == logged(first, name="reply")


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_answers_to_different_inputs_are_not_served(
    data, checkpoint, batches, tmp_path, run, monkeypatch
):
    from lmms_egoplan.harnesses.lm_eval import ranker
    from lmms_egoplan.harnesses.lmms_eval import hf_vlm

    cache = str(tmp_path / "cache")
    with monkeypatch.context() as earlier:
        for module in (hf_vlm, ranker):
            earlier.setattr(module, "RANKING_VERSION", 2)
        run(checkpoint("llava"), SHORT, use_cache=cache)
    asked = len(batches)
    run(checkpoint("llava"), SHORT, use_cache=cache)
    assert len(batches) == 2 * asked > 0


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
@pytest.mark.parametrize("task", [SHORT, PLANNING])
def test_llavas_system_prompt_is_in_a_system_turn(data, checkpoint, batches, run, task):
    done = run(checkpoint("llava"), task)
    prompt = LLAVA.planning if task == PLANNING else LLAVA.general
    dimension = task.rpartition("_")[2]
    assert texts(checkpoint("llava"), batches) == [
        f"<s> {prompt} USER: <image>\nWhat is thing {number} of {dimension}?  ASSISTANT:"
        for number in (1, 2)
    ]
    assert set(logged(done, task, "answer", "prompts").values()) == {
        "LLaVA series models, system turn"
    }
    assert done.details[task]["prompts"] == "LLaVA series models, system turn"


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_without_a_system_turn_the_prompt_precedes_the_question(
    data, checkpoint, batches, run, tmp_path
):
    folder = save("llava", tmp_path / "llava")
    processor = AutoProcessor.from_pretrained(folder)
    processor.chat_template = NO_SYSTEM_TURN
    processor.save_pretrained(folder)
    done = run(folder, SHORT)
    assert texts(folder, batches) == [
        f"<s> USER: <image>\n{LLAVA.general}\nWhat is thing {number} of existence?  ASSISTANT:"
        for number in (1, 2)
    ]
    assert set(logged(done, SHORT, "answer", "prompts").values()) == {
        "LLaVA series models, in the user turn"
    }


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms, in_lm])
def test_other_model_types_get_gpt_4vs_prompt(data, checkpoint, batches, run):
    done = run(checkpoint("qwen2_5_vl"), SHORT)
    assert set(logged(done, SHORT, "answer", "prompts").values()) == {"GPT-4V"}
    for text in texts(checkpoint("qwen2_5_vl"), batches):
        assert "Please let your answer be as short as possible. Question: What is thing" in text


@pytest.mark.nightly
def test_blips_checkpoints_get_blips_prompt(data, checkpoint):
    for name in ("instructblip", "blip2"):
        done = in_lmms(checkpoint(name), SHORT)
        assert set(logged(done, SHORT, "answer", "prompts").values()) == {FAMILIES[1].name}


@pytest.mark.nightly
def test_a_prompt_family_setting_overrides_the_model_type(data, checkpoint, batches, tmp_path):
    done = in_lm(checkpoint("llava"), SHORT, metadata={"prompts": "default"})
    assert set(logged(done, SHORT, "answer", "prompts").values()) == {"GPT-4V"}
    done = in_lm(checkpoint("qwen2_5_vl"), SHORT, metadata={"prompts": "llava"})
    assert set(logged(done, SHORT, "answer", "prompts").values()) == {
        "LLaVA series models, system turn"
    }
    assert all(text.startswith(f"<|im_start|>system\n{LLAVA.general}<|im_end|>") for text in texts(
        checkpoint("qwen2_5_vl"), batches[-1:]
    ))  # fmt: skip
    (tmp_path / "own.yaml").write_text(
        f"include: {task_paths('lmms-eval')[SHORT]}\ntask: own_existence\n"
        "lmms_eval_specific_kwargs:\n  hf_vlm:\n    prompt: 'Say it. {question}'\n    system: Be "
        "brief.\n"
    )
    batches.clear()
    done = in_lmms_eval(checkpoint("llava"), "own_existence", folder=tmp_path)
    assert set(logged(done, "own_existence", "answer", "prompts").values()) == {"own, system turn"}
    assert texts(checkpoint("llava"), batches)[0].startswith(
        "<s> Be brief. USER: <image>\nSay it. What is thing 1"
    )


@pytest.mark.nightly
def test_a_system_instruction_precedes_the_prompt(data, checkpoint, batches):
    in_lm(checkpoint("llava"), SHORT, system_instruction="Speak English.")
    assert all(text.startswith(f"<s> Speak English.\n\n{LLAVA.general} USER:") for text in texts(
        checkpoint("llava"), batches
    ))  # fmt: skip


@pytest.mark.nightly
def test_without_a_chat_template_the_prompt_precedes_the_question(data, checkpoint, batches):
    done = in_lm(checkpoint("llava"), SHORT, apply_chat_template=False)
    assert set(logged(done, SHORT, "answer", "prompts").values()) == {
        "LLaVA series models, in the user turn"
    }
    assert all(
        f"<image>{LLAVA.general}\nWhat is" in text for text in texts(checkpoint("llava"), batches)
    )
