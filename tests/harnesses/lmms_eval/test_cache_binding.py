"""lmms-eval's `--use_cache` serves only responses from the same weights and from paths that have
not failed.
"""

import itertools
import os
import time

import numpy as np
import pytest
from lmms_eval.api.instance import unwrap_generation_output
from lmms_eval.caching.response_cache import ResponseCache
from PIL import Image

from harnesses.lmms_eval.small_requests import generation_requests, ranking_requests
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.lmms_eval.response_cache import ModelCache
from lmms_egoplan.ranking import PathError
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood
from zoo import build, save
from zoo.unusual import save_faulty

CHOICES = ["put mug on the counter", "open the fridge", "take the milk and then wash it"]


def docs(*texts):
    picture = Image.effect_mandelbrot((60, 40), (-2, -1.5, 1, 1.5), 60).convert("RGB")
    return [{"text": text, "visuals": [picture], "choices": CHOICES} for text in texts]


def ask(model, folder, cache, documents, finish=True):
    """Return the losses that the harness gets with `--use_cache`, and the number of cache hits."""
    responses = ModelCache.create(
        str(cache), model="hf_vlm", model_args=f"pretrained={folder},dtype=float32", task_dict={}
    ).opened(model)
    finished = False
    try:
        answers = responses.execute(model, "loglikelihood", ranking_requests(model, documents))
        finished = finish
    finally:
        hits = responses._hits
        responses.finalize(success=finished)
    return [parse_loglikelihood(getattr(answer, "text", answer)).loss for answer in answers], hits


def reweigh(folder, factor):
    """Write a checkpoint of the same shape with other weights into the folder."""
    model, _ = build("llava")
    weights = {
        name: value * factor if value.ndim > 1 else value
        for name, value in model.state_dict().items()
    }
    model.save_pretrained(folder, state_dict=weights)


def test_replaced_weights_are_not_served_from_the_cache(tmp_path):
    folder = save("llava", tmp_path / "checkpoint")
    documents = docs("Next?", "What now?")
    first, _ = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents)
    again, hits = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents)
    assert (again, hits) == (first, 6)
    reweigh(folder, 0.9)
    other, hits = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents)
    assert hits == 0
    fresh, _ = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "empty", documents)
    assert other == fresh
    assert not np.allclose(other, first, atol=1e-2)


@pytest.mark.parametrize("kind", ["generate_until", "loglikelihood"])
def test_responses_from_the_cache_keep_what_a_run_reports(tmp_path, kind):
    """Replies keep their token counts, and all questions the tokens of their context and their
    images.
    """
    folder = save("llava", tmp_path / "checkpoint")
    documents = docs("Next?", "What now?")
    answers, hits, counts = [], [], []
    for _ in range(2):
        model = HFVLM(str(folder), dtype="float32")
        responses = ModelCache.create(
            str(tmp_path / "cache"), model="hf_vlm", model_args="", task_dict={}
        ).opened(model)
        generated = kind == "generate_until"
        requests = (
            generation_requests(model, documents, max_new_tokens=4)
            if generated
            else ranking_requests(model, documents)
        )
        with evaluating(model):
            answers.append(
                [unwrap_generation_output(x) for x in responses.execute(model, kind, requests)]
            )
            counts.append([record.known(request.task_name, request.doc_id) for request in requests])
        hits.append(responses._hits)
        responses.finalize(success=True)
    assert hits == [0, len(requests)]
    assert answers[1] == answers[0]
    assert counts[1] == counts[0]
    assert all(
        of_question["tokens"] > 8 and of_question["images"] == 1 for of_question in counts[1]
    )
    if generated:
        assert [of_reply.output_tokens for _, of_reply in answers[1]] == [4, 4]


def test_a_question_with_a_missing_response_is_ranked_whole(tmp_path, monkeypatch):
    """A run is killed before the last response of its second question is stored."""
    folder, cache = save("llava", tmp_path / "checkpoint"), tmp_path / "cache"
    documents = docs("Next?", "What now?", "And then?")
    expected, _ = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "complete", documents)
    store, stored = ResponseCache._store, itertools.count(1)

    def store_or_end(*arguments):
        if next(stored) == 6:
            raise KeyboardInterrupt
        store(*arguments)

    monkeypatch.setattr(ResponseCache, "_store", store_or_end)
    # it would restore the response
    monkeypatch.setattr(ResponseCache, "_log_to_audit", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        ask(HFVLM(str(folder), dtype="float32"), folder, cache, documents)
    monkeypatch.undo()
    model, ranked = HFVLM(str(folder), dtype="float32"), []
    score = model._ranker.score_encoded
    monkeypatch.setattr(
        model._ranker,
        "score_encoded",
        lambda question: ranked.append(len(question.candidates)) or score(question),
    )
    losses, hits = ask(model, folder, cache, documents)
    assert (ranked, hits) == ([3, 3], 5)
    assert losses == pytest.approx(expected, abs=1e-5)


def test_replaced_weights_do_not_resume_an_unfinished_run(tmp_path):
    folder = save("llava", tmp_path / "checkpoint")
    documents = docs("Next?", "What now?")
    ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents, finish=False)
    _, hits = ask(
        HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents, finish=False
    )
    assert hits == 6
    reweigh(folder, 0.9)
    _, hits = ask(
        HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", documents, finish=False
    )
    assert hits == 0


@pytest.mark.parametrize(
    "change", ["chat_template", pytest.param("touch", marks=pytest.mark.nightly)]
)
def test_a_change_in_any_checkpoint_file_invalidates_the_cache(tmp_path, change):
    folder = save("llava", tmp_path / "checkpoint")
    ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", docs("Next?"))
    if change == "touch":
        later = time.time() + 100
        os.utime(folder / "model.safetensors", (later, later))
    else:
        template = folder / "chat_template.jinja"
        template.write_text(template.read_text() + " ")
    _, hits = ask(HFVLM(str(folder), dtype="float32"), folder, tmp_path / "cache", docs("Next?"))
    assert hits == 0


def faulty(folder, **arguments):
    return HFVLM(str(folder), dtype="float32", trust_remote_code=True, **arguments)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(["Where?", "In room Z?", "Why?"], id="audit"),
        pytest.param(["In room Z?", "Where?"], id="settle", marks=pytest.mark.nightly),
    ],
)
def test_responses_from_a_path_that_fails_later_are_never_served(tmp_path, later):
    """A killed run leaves answers of the path `packed`.

    The next run finds it inexact, the third does not use it.

    In the next run, the first question decides the path, and the second is audited.
    """
    folder = save_faulty(tmp_path / "checkpoint", "Z")
    early = ["Next?", "What now?", "And then?"]
    documents = docs(*early, *later)
    ask(faulty(folder), folder, tmp_path / "cache", docs(*early), finish=False)
    with pytest.raises(PathError, match=f"small/{[*early, *later].index('In room Z?')}"):
        ask(faulty(folder), folder, tmp_path / "cache", documents, finish=False)
    model = faulty(folder)
    losses, hits = ask(model, folder, tmp_path / "cache", documents)
    assert hits == 0
    expected, _ = ask(faulty(folder, ranking_path="full"), folder, tmp_path / "other", documents)
    assert losses == pytest.approx(expected, abs=1e-5)
    _, hits = ask(faulty(folder), folder, tmp_path / "cache", documents)
    assert hits == len(losses)


def test_a_forced_path_is_used_and_cached_separately(tmp_path):
    folder = save("llava", tmp_path / "checkpoint")
    model = HFVLM(str(folder), dtype="float32", ranking_path="cached")
    ask(model, folder, tmp_path / "cache", docs("Next?"))
    assert set(model._ranker.paths.values()) == {"cached"}
    with pytest.raises(ValueError, match=r"ranking_path=shared.*llava.*auto, packed, cached, full"):
        HFVLM(str(folder), dtype="float32", ranking_path="shared")


def test_each_cache_has_the_keys_of_the_model_that_it_is_used_with(tmp_path):
    """Models may be loaded in any order. Caches of other backends do not change."""
    folders = [save("llava", tmp_path / "first"), save("qwen2_5_vl", tmp_path / "second")]
    models = [HFVLM(str(folder), dtype="float32") for folder in folders]
    given = {"model": "hf_vlm", "model_args": {"pretrained": "x"}}
    fingerprints = []
    for model in (*models, models[0]):
        bound = ModelCache.create(str(tmp_path / "cache"), **given).opened(model)
        fingerprints.append(bound.model_fingerprint)
        bound.close()
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
    assert all("weights" in fingerprint for fingerprint in fingerprints)
    free = ModelCache.create(str(tmp_path / "cache"), **given).opened(object())
    assert type(free) is ResponseCache
    assert free.model_fingerprint == 'hf_vlm|{"pretrained":"x"}'
    free.close()


def test_a_cache_without_requests_is_not_opened(tmp_path):
    ModelCache.create(str(tmp_path / "cache")).finalize(success=True)
    assert not (tmp_path / "cache").exists()
