"""Compare the model class that ranks after images with independent full passes."""

import shutil
from functools import partial

import dill
import numpy as np
import pytest
import torch
from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.models.dummy import DummyLM
from lm_eval.models.utils import resize_image
from sqlitedict import SqliteDict
from transformers import AutoModelForImageTextToText

from harnesses.lm_eval.asking import (
    ARGUMENTS,
    CANDIDATES,
    FAMILIES,
    LONG,
    TEXTS,
    lazy,
    pictures,
    plain_answer,
    prompt,
    ranking,
)
from harnesses.lm_eval.prepared_sets import manager
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.media.frames import read_video_frames
from lmms_egoplan.ranking import CandidateRanker, ContextTooLongError, PathError, RankingError
from media.files import write_numbered_video
from ranking.reference import reference_loss, user_turn
from zoo.unusual import save_faulty


@pytest.mark.parametrize("name", FAMILIES)
def test_chat_prompts_give_the_sums_of_full_passes(chat, name):
    """The first question with texts decides their path, the first one with images theirs; later
    ones use it.
    """
    requests, expected = [], []
    for doc_id, (text, count) in enumerate(zip([*TEXTS, *TEXTS[:2]], [0, 1, 3, 0, 1], strict=True)):
        images = lazy(doc_id, count) if count else None
        requests += ranking(doc_id, prompt(text, count, chat[name]), CANDIDATES, images)
        passes = [
            reference_loss(name, user_turn(text, pictures(doc_id, count)), candidate)
            for candidate in CANDIDATES
        ]
        expected += [(-loss * tokens, tokens) for loss, tokens in passes]
    answers = chat[name].loglikelihood(requests)
    np.testing.assert_allclose(
        [total for total, _ in answers], [total for total, _ in expected], atol=1e-3
    )
    assert [answer.num_tokens for answer in answers] == [tokens for _, tokens in expected]
    assert max(tokens for _, tokens in expected) > 5


# Without its template's delimiters, Qwen2.5-VL accepts only one image.
@pytest.mark.parametrize(
    ("name", "count"),
    [("llava", 0), ("llava", 3), ("qwen2_5_vl", 1)]
    + [
        pytest.param(*case, marks=pytest.mark.nightly) for case in (("llava", 1), ("qwen2_5_vl", 0))
    ],
)
def test_plain_prompts_give_the_sums_and_flags_of_full_passes(plain, name, count):
    model, requests, expected = plain[name], [], []
    continued, token = with_likeliest(model, pictures(len(TEXTS), count))
    candidates = [*(" " + candidate for candidate in CANDIDATES), token]
    for doc_id, text in enumerate([*TEXTS, continued]):
        images = lazy(doc_id, count) if count else None
        requests += ranking(doc_id, prompt(text, count), candidates, images)
        expected += [
            plain_answer(model, text, candidate, pictures(doc_id, count))
            for candidate in candidates
        ]
    answers = model.loglikelihood(requests)
    np.testing.assert_allclose(
        [total for total, _ in answers], [total for total, _, _ in expected], atol=1e-3
    )
    assert [answer.num_tokens for answer in answers] == [tokens for _, tokens, _ in expected]
    flags = [flag for _, flag in answers]
    assert flags == [flag for _, _, flag in expected]
    assert set(flags) == {True, False}


def test_a_run_without_the_chat_template_is_marked(data, plain):
    """The model has one, or as lm-eval's dummy none."""
    task, tasks = "egoplan_val_blind", manager()
    for model, settings, mark in (
        (plain["llava"], {"apply_chat_template": True}, None),
        (plain["llava"], {}, "not applied"),
        (DummyLM(), {}, "none"),
    ):
        done = evaluator.evaluate(model, tasks.load([task]), limit=1, bootstrap_iters=0, **settings)
        assert done["configs"][task]["metadata"].get("chat_template") == mark


def with_likeliest(model, images):
    """Return a text and its most likely next token that is text, not white space or part of a
    character.
    """
    all_text = " ".join(TEXTS)
    for text in (all_text[:length] for length in range(1, len(all_text))):
        inputs = model.processor(
            text=model.processor.image_token * len(images) + text,
            images=images or None,
            return_tensors="pt",
        )
        with torch.no_grad():
            likeliest = int(model.model(**inputs).logits[0, -1].argmax())
        token = model.tokenizer.decode([likeliest])
        before, after = (model.tokenizer(words)["input_ids"] for words in (text, text + token))
        if token.strip() and after == [*before, likeliest]:
            return text, token
    raise AssertionError("none found")


@pytest.mark.parametrize("template", ["What {} is this?", "What is this? {}"])
def test_plain_images_after_text_are_rejected(plain, template):
    requests = ranking(0, template.format("<image>"), [" mug"], lazy(0, 1))
    with pytest.raises(RankingError, match=r"--apply_chat_template.*What "):
        plain["llava"].loglikelihood(requests)


def test_chat_images_replace_their_placeholders(chat):
    model = chat["qwen2_5_vl"]
    context = model.apply_chat_template(
        [{"role": "user", "content": "First <image> then <image> and now?"}]
    )
    content = [
        {"type": "text", "text": "First "}, {"type": "image", "image": pictures(0, 1)[0]},
        {"type": "text", "text": " then "}, {"type": "image", "image": pictures(1, 1)[0]},
        {"type": "text", "text": " and now?"},
    ]  # fmt: skip
    expected = [
        reference_loss("qwen2_5_vl", [{"role": "user", "content": content}], text)
        for text in CANDIDATES
    ]
    answers = model.loglikelihood(ranking(0, context, CANDIDATES, lazy(0, 2)))
    np.testing.assert_allclose(
        [total for total, _ in answers], [-loss * n for loss, n in expected], atol=1e-3
    )


@pytest.mark.parametrize("num_images", [0, 1, 3])
@pytest.mark.parametrize("kind", ["chat", "plain"])
def test_images_without_placeholders_are_rejected(chat, plain, kind, num_images):
    model = {"chat": chat, "plain": plain}[kind]["qwen2_5_vl"]
    context = prompt("Next?", 2, model if kind == "chat" else None)
    with pytest.raises(RankingError, match=rf"question task/7: .*\b{num_images}\b.*\b2\b"):
        model.loglikelihood(ranking(7, context, [" mug"], lazy(0, num_images)))


def test_mixed_and_repeated_requests_are_answered_in_order(chat):
    """lm-eval repeats the last request of a rank that has fewer questions than others."""
    model = chat["qwen2_5_vl"]
    questions = [
        ranking(
            number,
            prompt(TEXTS[number % 3], count, model),
            CANDIDATES,
            lazy(number, count) if count else None,
        )
        for number, count in enumerate([1, 0, 2, 0, 1])
    ]
    alone = [answer for question in questions for answer in model.loglikelihood(question)]
    together = model.loglikelihood([request for question in questions for request in question])
    np.testing.assert_allclose(
        [total for total, _ in together], [total for total, _ in alone], atol=1e-4
    )
    assert len({round(total, 4) for total, _ in alone}) == len(alone)
    last = questions[-1]
    padded = model.loglikelihood([*last, last[-1], last[-1]])
    np.testing.assert_allclose(
        [total for total, _ in padded],
        [t for t, _ in [*alone[-5:], alone[-1], alone[-1]]],
        atol=1e-4,
    )


def test_equal_prompts_with_different_images_are_different_questions(chat):
    model = chat["llava"]
    context = prompt("Next?", 1, model)
    together = model.loglikelihood(
        [*ranking(0, context, CANDIDATES, lazy(0, 1)), *ranking(0, context, CANDIDATES, lazy(9, 1))]
    )
    alone = model.loglikelihood(ranking(0, context, CANDIDATES, lazy(9, 1)))
    np.testing.assert_allclose(
        [total for total, _ in together[5:]], [total for total, _ in alone], atol=1e-4
    )
    assert not np.allclose(
        [total for total, _ in together[:5]], [total for total, _ in alone], atol=1e-3
    )


@pytest.mark.parametrize("count", [0, 1])
def test_prompts_that_do_not_fit_are_an_error_in_ranking(chat, count):
    model = chat["llava"]
    requests = ranking(3, prompt(LONG, count, model), ["mug"], lazy(0, count) if count else None)
    with pytest.raises(ContextTooLongError, match=r"question task/3: .* 2048 positions"):
        model.loglikelihood(requests)


def test_a_question_whose_requests_come_from_the_cache_is_computed_once(checkpoint):
    model, passes = HFVLMRanker(checkpoint["llava"], **ARGUMENTS), []
    requests = dill.loads(dill.dumps(ranking(0, prompt("Next?", 2, model), CANDIDATES, lazy(0, 2))))
    for _ in range(2):  # the first time decides the path, and the second one is audited
        model.loglikelihood(requests)
    with model.model.model.vision_tower.register_forward_hook(lambda *_: passes.append(1)):
        model.loglikelihood(requests)
    assert len(passes) == 1


def test_images_are_resized_as_for_generation(checkpoint, chat):
    model = HFVLMRanker(checkpoint["llava"], image_width=12, image_height=9, **ARGUMENTS)
    small = LazyImages("small", partial(resized, 0, 1, 12, 9))
    context = prompt("Next?", 1, chat["llava"])
    answers = model.loglikelihood(ranking(0, context, CANDIDATES, lazy(0, 1)))
    expected = chat["llava"].loglikelihood(ranking(0, context, CANDIDATES, small))
    np.testing.assert_allclose(
        [total for total, _ in answers], [total for total, _ in expected], atol=1e-4
    )


def resized(start, count, width, height):
    return [resize_image(image, width, height) for image in pictures(start, count)]


def test_answers_from_the_response_cache_are_those_of_their_images(chat, tmp_path):
    model = chat["qwen2_5_vl"]
    context = prompt("Next?", 1, model)
    requests = [
        request
        for number in (0, 1)
        for request in ranking(number, context, CANDIDATES, lazy(number, 1))
    ]
    file, hook, passes = str(tmp_path / "answers.db"), model.cache_hook, []
    with model.model.register_forward_pre_hook(lambda *_: passes.append(1)):
        with evaluating(model):
            first = CachingLM(model, file).loglikelihood(requests[:5])
            before, counts = len(passes), record.known("task", 0)
        with evaluating(model):
            again = CachingLM(model, file).loglikelihood(requests[:5])
            assert record.known("task", 0) == counts
        assert counts["tokens"] > 8
        assert before == len(passes) > 0
        other = CachingLM(model, file).loglikelihood(requests)
    model.set_cache_hook(hook)
    assert again == first == other[:5]
    assert [answer.num_tokens for answer in again] == [answer.num_tokens for answer in first]
    assert not set(other[5:]) & set(first)
    np.testing.assert_allclose(
        [t for t, _ in other], [t for t, _ in model.loglikelihood(requests)], atol=1e-4
    )


def served(folder, cache, requests, **arguments):
    """Return the answers with `--use_cache`, and whether the model computed any of them."""
    model = HFVLMRanker(str(folder), **ARGUMENTS, **arguments)
    computed = []
    with model.model.model.vision_tower.register_forward_hook(lambda *_: computed.append(1)):
        answers = CachingLM(model, str(cache)).loglikelihood(requests)
    return [total for total, _ in answers], bool(computed)


def test_the_response_cache_depends_on_weights_and_arguments(checkpoint, chat, tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint["llava"], folder)
    requests = ranking(0, prompt("Next?", 1, chat["llava"]), CANDIDATES, lazy(0, 1))
    first, _ = served(folder, tmp_path / "answers.db", requests)
    assert served(folder, tmp_path / "answers.db", requests) == (first, False)
    assert served(folder, tmp_path / "answers.db", requests, ranking_path="cached")[1]
    assert served(folder, tmp_path / "answers.db", requests, image_width=12, image_height=9)[1]
    model = AutoModelForImageTextToText.from_pretrained(folder)
    model.save_pretrained(
        folder, state_dict={name: value * 0.9 for name, value in model.state_dict().items()}
    )
    other, computed = served(folder, tmp_path / "answers.db", requests)
    assert computed
    assert other == served(folder, tmp_path / "empty.db", requests)[0]
    assert not np.allclose(other, first, atol=1e-2)


def test_the_response_cache_serves_nothing_from_a_failed_path(chat, tmp_path):
    folder, cache = save_faulty(tmp_path / "checkpoint", "Z"), tmp_path / "answers.db"
    questions = [
        ranking(number, prompt(text, 1, chat["llava"]), CANDIDATES, lazy(number, 1))
        for number, text in enumerate(["Next?", "What now?", "In room Z?"])
    ]
    remote = {"trust_remote_code": True}
    served(folder, cache, questions[0], **remote)
    with pytest.raises(PathError, match="task/2"):
        served(folder, cache, [*questions[1], *questions[2]], **remote)
    answers, computed = served(
        folder, cache, [*questions[0], *questions[1], *questions[2]], **remote
    )
    assert computed
    expected, _ = served(
        folder,
        tmp_path / "other.db",
        [*questions[0], *questions[1], *questions[2]],
        ranking_path="full",
        **remote,
    )
    np.testing.assert_allclose(answers, expected, atol=1e-4)


def test_a_question_with_a_missing_response_is_ranked_whole(
    checkpoint, chat, tmp_path, monkeypatch
):
    """A run was killed after it had stored two responses of its second question."""
    contexts = [prompt(text, 1, chat["llava"]) for text in ("Next?", "What now?")]
    questions = [
        ranking(number, context, CANDIDATES, lazy(number, 1))
        for number, context in enumerate(contexts)
    ]
    requests, file = (
        [request for question in questions for request in question],
        str(tmp_path / "answers.db"),
    )
    expected, _ = served(checkpoint["llava"], file, requests)
    with SqliteDict(file, autocommit=True) as responses:
        for key in list(responses)[-3:]:
            del responses[key]
    model, ranked = HFVLMRanker(checkpoint["llava"], **ARGUMENTS), []
    ranker = model._rankers[True]
    score = ranker.score_encoded
    monkeypatch.setattr(
        ranker,
        "score_encoded",
        lambda question: ranked.append(len(question.candidates)) or score(question),
    )
    answers = CachingLM(model, file).loglikelihood(requests)
    assert ranked == [len(CANDIDATES)]
    np.testing.assert_allclose([total for total, _ in answers], expected, atol=1e-4)


def test_conditions_of_a_question_are_ranked_together(chat, tmp_path, monkeypatch):
    """Two tasks show the same frames, and a third one those of another question.

    The last task equals the first.
    """
    model = chat["llava"]
    paths = [write_numbered_video(tmp_path / f"{number}.mp4", 9) for number in range(2)]
    docs = [{"sample_id": number, "path": path} for number, path in enumerate(paths)]
    partners = [{**doc, "partner": docs[1 - number]} for number, doc in enumerate(docs)]
    requests = []
    for task, rows in (("whole", docs), ("reversed", docs), ("partner", partners), ("same", docs)):
        for doc_id, doc in enumerate(rows):
            numbers = [8, 0] if task == "reversed" else [0, 8]
            path = doc.get("partner", doc)["path"]
            images = LazyImages(f"{path} {numbers}", partial(read_video_frames, path, numbers))
            for index, candidate in enumerate(CANDIDATES):
                context = prompt(f"{doc['sample_id']}: {TEXTS[0]}", 2, model)
                arguments = context, candidate, {"visual": images}
                requests.append(Instance("loglikelihood", doc, arguments, index, (task, doc_id, 1)))
    count, ranked, score = 2 * len(CANDIDATES), [], CandidateRanker.score_encoded
    separate = [
        model.loglikelihood(requests[start : start + count])
        for start in range(0, len(requests), count)
    ]
    monkeypatch.setattr(
        CandidateRanker,
        "score_encoded",
        lambda *arguments: (ranked.append(arguments[1]), score(*arguments))[1],
    )
    together = model.loglikelihood(requests)
    assert [tuple(pair) for pair in together] == [tuple(pair) for part in separate for pair in part]
    assert [question.question_id for question in ranked] == [
        *("whole/0", "reversed/0", "partner/1", "whole/1", "reversed/1", "partner/0")
    ]
