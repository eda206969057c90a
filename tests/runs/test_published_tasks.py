"""Compare the tasks that follow the authors' code with slow references, in both harnesses, on tiny
models.
"""

import math

import pytest
import torch
import yaml
from lmms_eval.evaluator import simple_evaluate
from tenacity import RetryError

from benchmarks.egoplan import derived_questions
from benchmarks.egoplan import published_reference as published
from benchmarks.egoplan.bench2_questions import EXAMPLES, write_questions
from benchmarks.egoplan.derived_questions import DATA, available, derive, render_media
from lmms_egoplan.benchmarks.egoplan.frames import frame_rate
from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan, prepare_egoplan_bench2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from patience import FOREVER_S
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import in_lm_eval, in_lmms_eval, lmms_tasks
from runs.harness import log, metric, start
from runs.slow_egoplan import LETTERS, SOURCE_FPS, Choice, SlowEgoPlan, _image, assert_same_ranking
from runs.slow_egoplan_bench2 import SlowEgoPlanBench2, by_domain
from runs.test_stock_scoring import StockBackend
from zoo import save

pytestmark = pytest.mark.skipif(
    not (available() and EXAMPLES.exists()), reason=f"needs the public annotations in {DATA}"
)

QUESTIONS = 48
SINGLE, CLIPS, LETTER = (
    "egoplan_val_published",
    "egoplan_val_clips_published",
    "egoplan_bench2_generate",
)
REPLIES = [
    "Answer: B",
    "Add it",
    "Based on this, C",
    "The answer is D.",
    "Option: A",
    "none",
    "Best answer: C",
    "B.",
]


class SlowPublished(SlowEgoPlan):
    """One model, with the loss of the authors' code: the mean over the answer's tokens and the end
    of the turn.
    """

    END = "<|im_end|>"

    def frames(self, record, numbers):
        return [_image(self._frame(record, number)) for number in numbers]

    def single(self, record):
        return self.frames(record, published.single_video(record))

    def clips_as_images(self, record):
        numbers = [number for clip in published.clips(record) for number in clip]
        return self.frames(record, [*numbers, record["current_observation_frame"]])

    def clips_as_videos(self, record):
        videos = [
            {
                "type": "video",
                "video": [self._frame(record, number) for number in clip],
                "fps": frame_rate(clip, SOURCE_FPS[record["video_source"]]),
            }
            for clip in published.clips(record)
        ]
        return [*videos, *self.frames(record, [record["current_observation_frame"]])]

    @torch.no_grad()
    def rank(self, record, media):
        """Score the turn up to and including its end.

        The template ends a turn with the token and a line break.
        """
        choices, tokenizer = [], self.processor.tokenizer
        end = tokenizer.convert_tokens_to_ids(self.END)
        for letter in "abcd":
            text = record[f"choice_{letter}"]
            answer = [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
            inputs = self._inputs(media, record["question"], answer)
            ids = inputs["input_ids"][0].tolist()
            stop = max(index for index, token in enumerate(ids) if token == end) + 1
            start = stop - 1
            while text not in tokenizer.decode(ids[start:stop]):
                start -= 1
            self._forget_positions()
            logprobs = self.model(**inputs).logits[0].double().log_softmax(-1)
            total = math.fsum(
                logprobs[index - 1, ids[index]].item() for index in range(start, stop)
            )
            choices.append(Choice(text, total, stop - start))
        return choices


def varied(records):
    """Let some actions run past the observation or last one frame, and leave some questions without
    past actions.
    """
    for number, record in enumerate(records):
        actions = record["task_progress_metadata"]
        if number % 9 == 4:
            record["task_progress_metadata"] = []
        elif number % 4 == 1:
            actions[-1] = actions[-1] | {"stop_frame": record["current_observation_frame"] + 500}
        elif number % 9 == 7:
            actions[-1] = actions[-1] | {"stop_frame": actions[-1]["start_frame"]}
    return records


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
        patch.setattr(derived_questions, "_EVENT_GAP", 13)
        rendered = render_media(varied(derive(QUESTIONS)), folder / "media")
        prepare_egoplan(
            rendered.annotations,
            "val",
            Media({"EpicKitchens": rendered.epic_kitchens, "Ego4D": rendered.ego4d}),
        )
        patch.setattr(derived_questions, "_EVENT_GAP", 1)  # many tasks have fewer than 8 frames
        write_questions(folder / "bench2")
        prepare_egoplan_bench2(
            folder / "bench2" / "annotations.json", Media({"Ego4D": folder / "bench2" / "ego4d"})
        )
        yield folder


@pytest.fixture(scope="module")
def qwen(data):
    return save("qwen2_5_vl", data / "qwen")


@pytest.fixture(scope="module")
def slow(data, qwen):
    return SlowPublished(qwen, data / "media")


def right_choices(records, ranked):
    means = [[choice.logprob / choice.num_tokens for choice in choices] for choices in ranked]
    return [
        LETTERS[question.index(max(question))] == record["golden_choice_idx"]
        for record, question in zip(records, means, strict=True)
    ]


def mean(values):
    return sum(values) / len(values)


@pytest.mark.nightly
def test_the_questions_are_varied(slow):
    records = slow.records
    assert len(records) == QUESTIONS
    past = [record for record in records if published.runs_past(record)]
    assert {record["video_source"] for record in past} == {"Ego4D"}
    assert {record["video_source"] for record in records if published.authors_fail(record)} == {
        "EpicKitchens",
        "Ego4D",
    }
    assert any(
        number > record["current_observation_frame"]
        for record in past
        for clip in published.clips(record)
        for number in clip
    )
    assert any(not record["task_progress_metadata"] for record in records)


@pytest.mark.whole
def test_one_video_equals_the_reference_in_both_harnesses(qwen, slow):
    ranked = [slow.rank(record, slow.single(record)) for record in slow.records]
    right = right_choices(slow.records, ranked)
    assert 0 < sum(right) < QUESTIONS
    for evaluate in (in_lmms_eval, in_lm_eval):
        run = evaluate(qwen, SINGLE)
        assert_same_ranking(run, SINGLE, ranked, slow.records)
        assert metric(run.results[SINGLE], "acc") == pytest.approx(mean(right))
        assert run.details[SINGLE]["num_questions"] == QUESTIONS


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("evaluate", "media"), [(in_lmms_eval, "clips_as_videos"), (in_lm_eval, "clips_as_images")]
)
def test_clips_equal_the_reference(qwen, slow, evaluate, media):
    run = evaluate(qwen, CLIPS)
    ranked = [slow.rank(record, getattr(slow, media)(record)) for record in slow.records]
    failed = [published.authors_fail(record) for record in slow.records]
    ids = sorted(
        record["sample_id"] for record, fails in zip(slow.records, failed, strict=True) if fails
    )
    assert_same_ranking(run, CLIPS, ranked, slow.records, unscored=ids)
    right = right_choices(slow.records, ranked)
    past = [published.runs_past(record) for record in slow.records]
    scored = [is_right for is_right, fails in zip(right, failed, strict=True) if not fails]
    results, details = run.results[CLIPS], run.details[CLIPS]
    assert metric(results, "acc") == pytest.approx(mean(scored))
    assert details["authors_fail"] == len(ids) > 0
    assert details["authors_fail_ids"] == ", ".join(map(str, ids[:20])) + ", ..." * (len(ids) > 20)
    assert details["predictions"] == QUESTIONS - len(ids)
    # not the official ones
    assert metric(results, "coverage") == pytest.approx((QUESTIONS - len(ids)) / QUESTIONS)
    assert details["past_observation"] == sum(past) > 0
    within = zip(right, past, failed, strict=True)
    within = [is_right for is_right, is_past, fails in within if not is_past and not fails]
    assert metric(results, "acc_within") == pytest.approx(mean(within))
    assert details["num_questions"] == QUESTIONS


@pytest.mark.nightly
def test_written_letters_equal_the_reference(data):
    checkpoint = save_attentive_answerer(data / "answerer", REPLIES)
    slow = SlowEgoPlanBench2(checkpoint, data / "bench2")
    slow.prompt = published.bench2_prompt
    assert any(
        record["current_observation_frame"] - record["task_start_frame"] < 7
        for record in slow.records
    )
    replies = [
        slow.reply(
            record,
            [_image(slow._frame(record, number)) for number in published.bench2_frames(record)],
        ).strip()
        for record in slow.records
    ]
    assert len(set(replies)) > 3
    letters = [published.bench2_letter(reply) for reply in replies]
    right = [
        letter == record["golden_choice_idx"]
        for letter, record in zip(letters, slow.records, strict=True)
    ]
    for run in (
        in_lmms_eval(
            checkpoint, LETTER, gen_kwargs=f"max_new_tokens={slow.MOST_TOKENS}", batch_size=8
        ),
        in_lm_eval(checkpoint, LETTER, gen_kwargs={"max_gen_toks": slow.MOST_TOKENS}, batch_size=8),
    ):
        samples = {
            sample["details"]["predictions"]["sample_id"]: sample for sample in run.samples[LETTER]
        }
        for record, reply, letter in zip(slow.records, replies, letters, strict=True):
            sample = samples[record["sample_id"]]
            assert "".join(sample["filtered_resps"]).strip() == reply
            assert (sample["details"]["predictions"]["prediction"] or "") == letter
        assert metric(run.results[LETTER], "acc") == pytest.approx(mean(right))
        for name, value in by_domain(slow.records, right).items():
            assert metric(run.results[LETTER], name) == pytest.approx(value)
        assert metric(run.results[LETTER], "acc_clear") != metric(run.results[LETTER], "acc")


@pytest.mark.nightly
def test_a_backend_that_does_not_score_the_end_is_refused(data):
    process = start(data, "--model", "qwen2_5_vl", "--tasks", SINGLE)
    process.wait(FOREVER_S)
    assert f"{SINGLE}: qwen2_5_vl does not score the end" in log(data)
    with pytest.raises(RetryError) as raised:  # the harness tries to score a question several times
        simple_evaluate(StockBackend(), tasks=[SINGLE], task_manager=lmms_tasks(), limit=1)
    assert isinstance(raised.value.__cause__, LmmsEgoplanError)


@pytest.mark.nightly
def test_the_tuned_models_question_is_a_variant(data, qwen, slow, tmp_path):
    variant = {
        "include": f"{LMMS_EVAL_TASKS}/egoplan/{CLIPS}.yaml",
        "task": "egoplan_val_clips_tuned",
    }
    function = "doc_to_text: !function lmms_egoplan.benchmarks.egoplan.prompts.tuned_question\n"
    (tmp_path / "tuned.yaml").write_text(yaml.safe_dump(variant) + function)
    run = in_lmms_eval(qwen, "egoplan_val_clips_tuned", folder=tmp_path, limit=3)
    records = slow.records[:3]
    ranked = [
        slow.rank(
            record | {"question": published.tuned_question(record)}, slow.clips_as_videos(record)
        )
        for record in records
    ]
    assert_same_ranking(run, "egoplan_val_clips_tuned", ranked, records)
