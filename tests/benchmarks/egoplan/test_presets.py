"""Compare prompts, frames, letters, scores and YAML of the presets with the slow references."""

import random
import re
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from benchmarks.egoplan import published_reference as published
from benchmarks.egoplan.bench2_questions import LEAD
from benchmarks.egoplan.test_published_pipelines import READ, WORDS, records
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.frames import paired_frames
from lmms_egoplan.benchmarks.egoplan.metrics import details
from lmms_egoplan.benchmarks.egoplan.presets import (
    LIKELIHOOD,
    load_presets,
    load_prompts,
    prompt_of,
    rotated,
)
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.benchmarks.egoplan.published_scores import score_preset
from lmms_egoplan.benchmarks.egoplan.reply import parse_letter
from lmms_egoplan.benchmarks.presets import FIELDS
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS, TASK_FOLDERS
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText, PathUse
from lmms_egoplan.task_files import read_task_file, task_paths

CORPUS = Path(__file__).with_name("replies.yaml")
BENCHMARKS = ("egoplan", "egoplan_bench2")
PRESETS = [(benchmark, name) for benchmark in BENCHMARKS for name in load_presets(benchmark)]
VERBS = ("take", "open {}", "wash", "put down")
# Replies that readers read differently. The letters are those of `readers_of_letters`, in its
# order.
AWKWARD = {
    "Answer: B": ("A", "B", None, "B", "B", None),
    "Let me see. B": ("B", "L", None, "B", "B", None),
    "Based on the video, A": ("B", "B", None, "A", "A", None),
    "(B)": ("B", "B", None, "B", "B", None),
    "Answer: B. Because it is open": ("A", "B", None, "B", "B", None),
    "I would pick B": ("B", "B", None, "B", "B", None),
    "B.": ("B", "B", None, "B", "B", None),
    "B. open": ("B", "B", None, "B", "B", None),
    "b": (None, "B", "B", "B", "B", None),
    "a cup, so B": ("B", "B", None, "A", "A", None),
    "The best answer is C": ("C", "C", None, "C", "C", None),
    "The tap is open. If so, (C), not (D)": ("C", "C", None, "D", "D", None),
    "Answer: (A) and then (D)": ("A", "A", None, "A", "A", None),
    r"\boxed{B}": ("B", "B", "B", "B", "B", None),
    r"A \boxed{\text{B}} C \boxed{ c }": ("A", None, "C", "A", "A", None),
    r"\boxed{B. open}": ("B", "B", None, "B", "B", None),
    "<think>A, (D)</think>\n C": ("A", "C", "C", "D", "C", None),
    "<think>A</think> the bag</think> D": ("A", "D", None, "A", "D", None),
    "<think>A</think><answer>B. open</answer>": ("A", None, None, "A", "B", "B"),
    "<answer>(B)</answer>": ("B", None, None, "B", "B", None),
    "<answer>b</answer>": (None, None, None, "B", "B", None),
    "<answer></answer><answer>B</answer>": ("B", None, None, "B", None, None),
    "<answer>E</answer>": (None, None, None, None, None, "E"),
    "<answer>B": ("B", "B", None, "B", "B", None),
    "Sit. STOP IN D": ("D", "O", None, "D", "D", None),
    "Correct option: D (A is done)": ("C", "D", None, "D", "D", None),
    "答案是B": ("B", "B", None, None, None, None),
    "none": (None, None, None, None, None, None),
    "": (None, None, None, None, None, None),
}
readers_of_letters = (
    *(
        "first_letter_lmms_eval",
        "first_capital",
        "boxed",
        "last_bracketed",
        "last_bracketed_in_answer",
        "answer_tag",
    ),
)


@pytest.fixture(scope="module")
def upstream():
    """Return lmms-eval's own functions for EgoPlan-Bench."""
    from lmms_eval.tasks.egoplan import utils

    return utils


def replies():
    """Return all replies of the tests' corpus, its answers alone and within other text, and the
    awkward replies.

    Each text surrounds other answers.
    """
    corpus = yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    letters = {"l": "B", "s": "b", "f": "\uff22", "t": "open the drawer"}
    answers = [answer.format(**letters) for answer in corpus["answers"]]
    arounds = corpus["around"].values()
    surrounded = [
        around.format(answer)
        for position, around in enumerate(arounds)
        for answer in answers[position :: len(arounds)]
    ]
    return [
        *corpus["claims"],
        *corpus["unclear"],
        *corpus["no_claim"],
        *AWKWARD,
        *READ,
        *answers,
        *surrounded,
    ]


REPLIES = replies()


def test_known_replies():
    read = {reply: tuple(READERS[name](reply) for name in readers_of_letters) for reply in AWKWARD}
    assert read == AWKWARD


@pytest.fixture(scope="module")
def clear_letters():
    return [parse_letter(reply) or "" for reply in REPLIES]


@pytest.mark.parametrize(("benchmark", "name"), published.PIPELINES)
def test_letters_equal_the_reference(clear_letters, benchmark, name):
    read = READERS[load_presets(benchmark)[name].parser]
    letters = [read(reply) or "" for reply in REPLIES]
    assert letters == [published.PIPELINE_LETTERS[name](reply) for reply in REPLIES]
    assert len(set(letters)) > 1
    assert letters != clear_letters  # some are misread


@given(
    st.lists(
        st.sampled_from([*WORDS, *AWKWARD, *published.OPENINGS, "\n", "</think>", "("]), max_size=6
    ).map(" ".join)
)
def test_letters_of_random_replies_equal_the_references(reply):
    for benchmark, name in published.PIPELINES:
        read = READERS[load_presets(benchmark)[name].parser]
        assert (read(reply) or "") == published.PIPELINE_LETTERS[name](reply), name


def test_letters_equal_lmms_evals_own_function(upstream):
    read = READERS["first_letter_lmms_eval"]
    assert [read(reply) or "" for reply in REPLIES] == [
        upstream.extract_characters_regex(reply) for reply in REPLIES
    ]


def as_doc(benchmark, record):
    """Return a record as a row of the prepared data."""
    return {
        "video_id": "v",
        "video_source": "Ego4D",
        **record,
        "domain": record.get("domain", "Work") if benchmark == "egoplan_bench2" else None,
        "question": record.get("question") or published.QUESTION.format(**record),
        "choices": [record[f"choice_{letter}"] for letter in "abcd"],
        "past_actions": record["task_progress_metadata"],
        "first_frame": record.get("task_start_frame"),
        "split_size": 3355 if benchmark == "egoplan" else 1321,
    }


GOALS = (
    *(
        "make tea",
        "Fry an Egg.",
        "deal with cup and pan",
        "tie a knot!",
        "caf\u00e9 cr\u00e8me",
        "washing up",
    ),
    *(
        "The goal is to cut bread",
        "goal: to store cereal",
        "Making coffee!",
        "cut {bread}. {}",
        "cook 100% rice",
    ),
)
VIDEOS = {"P01_13": 60, "P01_102": 50, "P22_107": 50, "0a1b-2c": 30}  # frames per second


def questions(benchmark):
    """Return questions of a benchmark's format, some of them without past actions, and some with a
    short progress.
    """
    chance, made = random.Random(0), []
    for number in range(240):
        video = [*VIDEOS][number % 4] if benchmark == "egoplan" else "0a1b-2c"
        observation = chance.randrange(1, (9000, 90)[number % 7 == 3])
        starts = sorted(chance.randint(1, observation) for _ in range((0, 1, 3, 5, 7)[number % 5]))
        record = {
            "sample_id": number,
            "video_source": "EpicKitchens" if video.startswith("P") else "Ego4D",
            "video_id": video,
            "task_goal": GOALS[number % len(GOALS)],
            **{
                f"choice_{letter}": f"{verb} cup {number}"
                for letter, verb in zip("abcd", VERBS, strict=True)
            },
            "golden_choice_idx": "ABCD"[number % 4],
            "current_observation_frame": observation,
            "task_progress_metadata": [
                {
                    "narration_text": "x",
                    "start_frame": start,
                    "stop_frame": start + chance.randint(1, 600),
                }
                for start in starts
            ],
        }
        if benchmark == "egoplan":
            record["question"] = f"What should I do next, question {number}?"
        else:
            record["task_start_frame"] = max(
                0, min(starts, default=observation - 40 * (number % 3)) - LEAD
            )
        made.append(record)
    return made


@pytest.mark.parametrize(("benchmark", "name"), published.PROMPTS)
def test_prompts_equal_the_reference(benchmark, name):
    preset = load_prompts(benchmark)[name]
    for record in questions(benchmark):
        assert prompt_of(preset, as_doc(benchmark, record)) == published.PROMPTS[benchmark, name](
            record
        )


def test_the_prompt_equals_lmms_evals_own_function(upstream):
    preset = load_presets("egoplan")["lmms-eval-0.7.3"]
    for record in questions("egoplan"):
        assert prompt_of(preset, as_doc("egoplan", record)) == upstream.egoplan_doc_to_text(record)


class Numbered(visuals.FrameReader):
    """A reader of the frames' numbers instead of images."""

    def read_frames(self, _doc, numbers):
        return [NumberedImage(number) for number in numbers]

    def _progress_video(self, _doc, _progress):
        return "file.mp4"


class NumberedImage:
    def __init__(self, number, size=None):
        self.number, self.size = number, size

    def resize(self, size):
        return NumberedImage(self.number, size)


def media_shown(benchmark, name, record):
    """Return kind of media, numbers of the frames, and numbers of the separate images, as in the
    reference.
    """
    settings = load_presets(benchmark)[name].visual_settings
    media = Numbered(benchmark).visual_input(as_doc(benchmark, record), settings)
    size = (252, 252) if name == "seed-bench-r1" else None
    if settings["media"] == "frames":
        separate = settings["observation"] == "separate"
        numbers = [image.number for image in media]
        return "images", numbers[: len(numbers) - separate], numbers[len(numbers) - separate :]
    if settings["media"] == "video":
        assert media == ["file.mp4"]
        return "file", [], []
    clips, images = (
        [item for item in media if isinstance(item, Clip)],
        [m for m in media if not isinstance(m, Clip)],
    )
    assert {image.size for item in [*clips, images] for image in item} == {size}
    return (
        "video",
        [image.number for clip in clips for image in clip],
        [image.number for image in images],
    )


@pytest.mark.parametrize(("benchmark", "name"), published.PIPELINES)
def test_frames_equal_the_reference(benchmark, name):
    for record in questions(benchmark):
        media = media_shown(benchmark, name, record)
        assert media == published.media_of(name, record, VIDEOS[record["video_id"]]), record


@given(records(source="Ego4D"))
def test_frames_of_random_questions_equal_the_references(record):
    record |= {"task_goal": "make tea", **{f"choice_{letter}": letter for letter in "abcd"}}
    for benchmark, name in published.PIPELINES:
        asked = {
            key: value
            for key, value in record.items()
            if benchmark != "egoplan" or key != "task_start_frame"
        }
        assert media_shown(benchmark, name, asked) == published.media_of(name, asked, 30)


def test_the_observation_follows_a_video_file():
    record = {
        "task_goal": "x",
        **{f"choice_{letter}": letter for letter in "abcd"},
        "current_observation_frame": 9,
    }
    doc = as_doc("egoplan", record | {"task_progress_metadata": []})
    path, image = Numbered("egoplan").visual_input(
        doc, {"media": "video", "observation": "separate"}
    )
    assert (path, image.number) == ("file.mp4", 9)


@given(st.integers(1, 900), st.sampled_from([Fraction(24), Fraction(30), Fraction(60000, 1001)]))
def test_numbers_of_frames_equal_qwens(length, fps):
    qwen = pytest.importorskip("qwen_vl_utils.vision_process", reason="needs qwen-vl-utils")
    count = paired_frames(length, length / fps * 2, 4, 16)
    if length > 1:
        assert count == qwen.smart_nframes(
            {"fps": 2, "min_frames": 4, "max_frames": 16}, length, float(fps)
        )


def test_the_size_is_what_qwens_preprocessing_makes_of_256():
    qwen = pytest.importorskip("qwen_vl_utils.vision_process", reason="needs qwen-vl-utils")
    assert (
        list(qwen.smart_resize(256, 256, 28))
        == load_presets("egoplan")["seed-bench-r1"].media["size"]
    )


def test_images_are_resized():
    class Photographs(visuals.FrameReader):
        def read_frames(self, _doc, numbers):
            return [Image.new("RGB", (64, 48)) for _ in numbers]

    record = {
        "task_goal": "x",
        **{f"choice_{letter}": letter for letter in "abcd"},
        "current_observation_frame": 90,
    }
    doc = as_doc(
        "egoplan", record | {"task_progress_metadata": [{"start_frame": 1, "stop_frame": 80}]}
    )
    clip, image = Photographs("egoplan").visual_input(
        doc, load_presets("egoplan")["seed-bench-r1"].visual_settings
    )
    assert {image.size, *(frame.size for frame in clip)} == {(252, 252)}


@pytest.mark.parametrize(("benchmark", "name"), published.PIPELINES)
def test_scores_equal_the_reference(benchmark, name):
    part = {"egoplan": "acc_ego4d", "egoplan_bench2": "acc_work"}[benchmark]
    record = {
        "task_goal": "x",
        **{f"choice_{letter}": letter for letter in "abcd"},
        "task_progress_metadata": [],
    }
    record |= {"sample_id": 1, "current_observation_frame": 9}
    misread = 0
    for number, reply in enumerate([*REPLIES[::4], *AWKWARD]):
        doc = as_doc(benchmark, record) | {"golden_choice_idx": "ABCD"[number % 4]}
        values = score_preset(benchmark, name, doc, [reply])
        letter = published.PIPELINE_LETTERS[name](reply)
        assert (
            values["acc"]
            == values[part]
            == {"cluster": "v", "score": float(letter == "ABCD"[number % 4])}
        )
        assert values["details"]["predictions"]["prediction"] == (letter or None)
        assert values["unparsed"]["score"] == (letter == "")
        clear = parse_letter(reply, doc["choices"])
        assert values["acc_clear"]["score"] == (clear == "ABCD"[number % 4])
        misread += (clear or "") != letter
    assert misread > 5


RE_ENCODED = "media (stored videos not seen; our file has up to 4 frames per second and 256 in all)"
STORED_CLIPS = "prompt (stored questions not seen), media (stored clips not seen)"
UNKNOWN = {
    ("egoplan", "lmms-eval-0.7.3"): RE_ENCODED,
    ("egoplan", "seed-bench-r1"): STORED_CLIPS,
    ("egoplan_bench2", "official"): "decoding",
    ("egoplan_bench2", "lmms-eval-0.7.3"): "prompt, media",
    (
        "egoplan_bench2",
        "flageval",
    ): "prompt (stored questions not seen; last line unused in that commit), "
    "media (stored videos or images not seen)",
    ("egoplan_bench2", "mimo"): f"prompt (system prompt not sent), {RE_ENCODED}, "
    "decoding (context of 8,192 tokens in the launch script not set)",
    (
        "egoplan_bench2",
        "physbrain-evalkit",
    ): "media, prompt (stored questions and options not seen)",
    (
        "egoplan_bench2",
        "physbrain-evalkit-thinking",
    ): "media, prompt (stored questions and options not seen)",
    ("egoplan_bench2", "seed-bench-r1"): STORED_CLIPS,
}


@pytest.mark.parametrize(("benchmark", "name"), PRESETS)
def test_unknown_fields_are_named(benchmark, name):
    preset = load_presets(benchmark)[name]
    record = {
        "task_goal": "x",
        **{f"choice_{letter}": letter for letter in "abcd"},
        "task_progress_metadata": [],
    }
    doc = as_doc(benchmark, record | {"sample_id": 1, "current_observation_frame": 9}) | {
        "golden_choice_idx": "A"
    }
    use = PathUse("full", "image")
    responses = [
        LoglikelihoodText.from_score(Loglikelihood(loss, 3, is_greedy=False, use=use))
        for loss in (1.0, 2.0, 3.0, 4.0)
    ]
    responses = responses if preset.parser == LIKELIHOOD else ["A"]
    expected = UNKNOWN.get((benchmark, name), "none")
    values = score_preset(benchmark, name, doc, responses)
    assert details([values["details"]] * 2)["unknown_fields"] == expected
    assert values["acc"]["score"] == float(name != "seed-bench-r1")
    shown_in_lm_eval = read_task_file(task_paths("lm-eval")[f"{benchmark}__{name}"])["metadata"]
    values = score_preset(benchmark, name, doc | {"shown": shown_in_lm_eval}, responses)
    images = "video (shown as images)"
    named = [
        *([] if expected == "none" else [expected]),
        *([images] if preset.media["media"] != "frames" else []),
    ]
    assert values["details"]["unknown_fields"] == (", ".join(named) or "none")


def test_every_preset_has_a_task_in_both_harnesses():
    names = {f"{benchmark}__{name}" for benchmark, name in PRESETS}
    assert len(names) == 10
    for folder in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        assert {path.stem for path in folder.glob("egoplan*/presets/*.yaml")} == names


# All other presets are at 1.3.
NEW = ("egoplan_bench2", "physbrain-evalkit-thinking")
# Entries of the metadata that are no settings of the media.
NOT_VISUAL = (
    "version",
    "benchmark",
    "main_metric",
    "count_metric",
    "scores_end_token",
    "preset",
)


@pytest.mark.parametrize(("benchmark", "name"), PRESETS)
def test_tasks_have_the_settings_of_their_preset(benchmark, name):
    preset, task = load_presets(benchmark)[name], f"{benchmark}__{name}"
    for harness in TASK_FOLDERS:
        content = read_task_file(task_paths(harness)[task])
        metadata = content["metadata"]
        assert (content["task"], metadata["preset"]) == (task, name)
        assert metadata["version"] == (1.2 if (benchmark, name) == NEW else 1.3)
        assert content["tag"] == "egocentric_planning_presets"
        scorer = f"score_{re.sub(r'[-.]', '_', name)}"
        if harness == "lm-eval" and preset.parser != LIKELIHOOD:
            scorer = "score_preset"
        assert content["process_results"].split(".")[-1] == scorer
        if preset.parser == LIKELIHOOD:
            assert "generation_kwargs" not in content
            continue
        decoding = dict(content["generation_kwargs"])
        assert decoding.pop("until") == []
        limit = decoding.pop("max_new_tokens" if harness == "lmms-eval" else "max_gen_toks")
        assert {"max_new_tokens": limit, **decoding} == preset.decoding
    settings = read_task_file(task_paths("lmms-eval")[task])["lmms_eval_specific_kwargs"]
    named = {} if preset.parser == LIKELIHOOD else {"preset": name}
    if preset.media["media"] == "timed_frames":
        assert settings["hf_vlm"] == named | preset.visual_settings
        assert settings["default"] == settings.pop("hf_vlm") | {"media": "frames"}
    else:
        assert settings == {"default": named | preset.visual_settings}
    expected = dict(preset.visual_settings)
    if preset.media["media"] == "video":
        expected = {
            "media": "frames",
            "num_frames": 8,
            "as_published": True,
            "observation": expected["observation"],
        }
    elif preset.media["media"] == "timed_frames":
        expected |= {"media": "frames"}
    visual = {key: value for key, value in metadata.items() if key not in NOT_VISUAL}
    assert visual | {"observation": expected["observation"]} == expected


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_decoding_equals_the_reference(benchmark):
    for name, preset in load_presets(benchmark).items():
        if preset.parser != LIKELIHOOD:
            limit, samples, arguments = published.SAMPLING[name]
            assert (preset.decoding["max_new_tokens"], preset.decoding["do_sample"]) == (
                limit,
                samples,
            )
            assert arguments.items() <= preset.decoding.items()


def test_letters_as_published_are_decoded_like_the_official_preset():
    decoding = load_presets("egoplan_bench2")["official"].decoding
    for folder, limit in ((LMMS_EVAL_TASKS, "max_new_tokens"), (LM_EVAL_TASKS, "max_gen_toks")):
        settings = read_task_file(folder / "egoplan_bench2" / "egoplan_bench2_generate.yaml")[
            "generation_kwargs"
        ]
        assert settings[limit] == decoding["max_new_tokens"] == 1024
        assert settings["until"] == []
        assert not settings["do_sample"]


@pytest.mark.parametrize(("benchmark", "name"), PRESETS)
def test_presets_state_all_fields(benchmark, name):
    preset = load_presets(benchmark)[name]
    assert (preset.name, preset.benchmark) == (name, benchmark)
    assert preset.source
    assert all(getattr(preset, field) is not None for field in FIELDS)
    assert preset.parser == LIKELIHOOD or preset.parser in READERS
    assert set(preset.gaps) <= set(FIELDS) - set(preset.unknown)


@given(st.integers(-9, 9))
def test_rotation_keeps_the_right_text(shift):
    doc = {"choices": ["w", "x", "y", "z"], "golden_choice_idx": "B"}
    moved = rotated(doc, shift)
    assert moved["choices"]["ABCD".index(moved["golden_choice_idx"])] == "x"
    assert rotated(moved, -shift) == doc
