"""Score questions of both benchmarks: the values that a harness collects per question.

A question's values are records, not numbers. An accuracy is ``{"score": 0.0 or 1.0, "video_id":
...}``, from which a harness can cluster its standard errors by video. The record of a count
contains the counted item, such as a sample id, so that the harness computes no standard error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_presets
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.benchmarks.egoplan.question import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import (
    DOMAINS,
    EGO4D,
    EPIC_KITCHENS,
    READY_CLIPS,
    RENDERED,
)
from lmms_egoplan.benchmarks.egoplan.reply import first_letter, parse_letter, parse_reasoned
from lmms_egoplan.benchmarks.egoplan.visuals import authors_fail_at_video, clips_as_published
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import RENDERED_SCENES, coverage_fields
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.generated_reply import is_truncated
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import audit_values
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, parse_loglikelihood


@dataclass(frozen=True, slots=True)
class Ranking:
    """Index of the choice that each score prefers; the first one if several are equal.

    All indices are None if a score is not finite.

    Attributes:
        by_mean: Choice with the highest mean log-probability per token; None if a mean is unknown.
            Sec. 3.5 says only "likelihood p(a|v, l)". The mean is inferred from eq. 4, which scores
            candidates in the training loss.
        by_sum: Choice with the highest sum of log-probabilities; None if a sum is unknown.
            lmms-eval's stock backends return means, and lm-eval's model classes return sums. With a
            token count, one gives the other.
        by_bytes: Choice with the highest sum divided by the choice's UTF-8 bytes; None if a sum is
            unknown.
        tied: True if several choices share the best mean.
    """

    by_mean: int | None
    by_sum: int | None
    by_bytes: int | None
    tied: bool


def rank(scores: Sequence[Loglikelihood], choices: Sequence[str]) -> Ranking:
    """Rank the choices of a question by their likelihoods (sec. 3.5).

    Args:
        scores: One per choice.
        choices: Texts of the choices, at least one, none empty.

    Raises:
        ValueError: The numbers of scores and choices differ.

    >>> scores = [Loglikelihood(loss=1.0, num_tokens=2), Loglikelihood(loss=0.75, num_tokens=4)]
    >>> rank(scores, ["open the tap", "dry the hands with a towel"])
    Ranking(by_mean=1, by_sum=0, by_bytes=1, tied=False)
    """
    if len(scores) != len(choices):
        raise ValueError(f"expected a score for each of {len(choices)} choices, got {len(scores)}")
    losses = [score.loss for score in scores if score.loss is not None]
    sums = [score.logprob for score in scores if score.logprob is not None]
    if not all(map(math.isfinite, losses + sums)):
        return Ranking(None, None, None, tied=False)
    by_mean = None
    by_sum = None
    by_bytes = None
    tied = False
    if len(losses) == len(choices):
        lowest = min(losses)
        by_mean = losses.index(lowest)
        tied = losses.count(lowest) > 1
    if len(sums) == len(choices):
        by_sum = sums.index(max(sums))
        per_byte = [
            total / len(choice.encode()) for total, choice in zip(sums, choices, strict=True)
        ]
        by_bytes = per_byte.index(max(per_byte))
    return Ranking(by_mean, by_sum, by_bytes, tied)


# The most questions that a metric names.
_NAMED = 20
# Accuracy over the questions of one source. Table 3: EgoPlan-IT was made from Epic-Kitchens; Ego4D
# is out of domain.
SOURCE_METRIC = {EPIC_KITCHENS: "acc_epic_kitchens", EGO4D: "acc_ego4d"}
# Accuracy over the questions of one domain of EgoPlan-Bench2.
DOMAIN_METRIC = {domain: f"acc_{domain.lower().replace(' ', '_')}" for domain in DOMAINS}


def score_ranking(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one validation question of EgoPlan-Bench whose choices were ranked by likelihood.

    Args:
        doc: Row of the prepared dataset, with ``golden_choice_idx``.
        responses: One per choice, as `parse_loglikelihood` reads them.

    Returns:
        The values of `score_test_ranking`, ``acc``, ``acc_sum``, ``acc_bytes``, and the accuracy of
        the question's source (`SOURCE_METRIC`, same value as ``acc``). An accuracy is absent if
        `Ranking` has None for it. Without `Ranking.by_mean`, the question also lowers ``coverage``.

    Raises:
        ValueError: A response cannot be read, or the numbers of responses and choices differ.

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 3355,
    ... }
    >>> losses = [(2.5, False), (1.5, True), (3.0, False), (2.0, False)]  # in nats per token
    >>> values = score_ranking(doc, losses)
    >>> values["acc"]
    {'score': 1.0, 'video_id': 'P01_01'}
    >>> values["predictions"]["prediction"]
    'B'
    """
    return _score_ranking(
        doc, responses, SOURCE_METRIC[doc["video_source"]], EGOPLAN.official["val"]
    )


def score_published_video(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one question of EgoPlan-Bench that was ranked as the authors' code does.

    It shows `visuals.published_frames`.

    Args:
        doc: As for `score_ranking`, with ``past_actions`` and ``current_observation_frame``.
        responses: As for `score_ranking`, to the choices of `protocol.closed_choices`.

    Returns:
        As for `score_ranking`, and:

        - ``authors_fail``: whether the authors' code fails on the question. If so, the question has
          no accuracy and no prediction, and lowers ``coverage``: the authors have no answer to
          compare with. Its likelihoods are logged
        - ``authors_fail_ids``: the sample id of such a question, else None

    Raises:
        LmmsEgoplanError: The backend does not read `END_OF_ANSWER`, so it scored other tokens.
        ValueError: As for `score_ranking`.

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup"], "split_size": 3355, "past_actions": [],
    ... }
    >>> use = '"use": {"path": "packed", "kind": "image"}'
    >>> responses = [
    ...     f'{{"loss": {loss}, "num_tokens": 4, "is_greedy": false, {use}}}' for loss in (2.5, 1.5)
    ... ]
    >>> score_published_video(doc, responses)["acc"]
    {'score': 1.0, 'video_id': 'P01_01'}
    """
    return _score_published(doc, responses, authors_fail=authors_fail_at_video(doc))


def score_published_clips(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one question of EgoPlan-Bench that was ranked after `visuals.published_clips`.

    Args:
        doc, responses: As for `score_published_video`.

    Returns:
        As for `score_published_video`, and:

        - ``past_observation``: whether a frame after the observation is shown, or would be without
          a ready clip
        - ``acc_within``: ``acc``, absent if such a frame is shown

    Raises:
        LmmsEgoplanError, ValueError: As for `score_published_video`.

    >>> doc = {
    ...     "sample_id": 7, "video_id": "0a1b", "video_source": "Ego4D", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup"], "split_size": 3355,
    ...     "current_observation_frame": 80,
    ...     "past_actions": [{"narration_text": "wash a cup", "start_frame": 10, "stop_frame": 99}],
    ... }
    >>> use = '"use": {"path": "packed", "kind": "image"}'
    >>> responses = [
    ...     f'{{"loss": {loss}, "num_tokens": 4, "is_greedy": false, {use}}}' for loss in (2.5, 1.5)
    ... ]
    >>> values = score_published_clips(doc, responses)
    >>> values["past_observation"], "acc" in values, "acc_within" in values
    ({'runs_past': True}, True, False)
    >>> doc["past_actions"][0]["stop_frame"] = 16
    >>> values = score_published_clips(doc, responses)
    >>> values["authors_fail"], "acc" in values, values["coverage"]
    ({'fails': True}, False, {'scored': False, 'of': 3355})
    """
    clips = clips_as_published(doc)
    values = _score_published(doc, responses, authors_fail=clips.authors_fail)
    last_number = max((max(clip) for clip in clips.frames), default=-1)
    runs_past = last_number > doc["current_observation_frame"]
    values = dict(values)
    if "acc" in values and not runs_past:
        values["acc_within"] = values["acc"]
    values["past_observation"] = {"runs_past": runs_past}
    return values


def score_test_ranking(doc: Doc, responses: Sequence[Any]) -> Values:
    """Collect the ranking of one question whose answer is private.

    Args:
        doc, responses: As for `score_ranking`.

    Returns:
        - ``ties``
        - ``predictions``: sample id, predicted letter or None, and for each choice its ``loss``,
          ``logprob``, ``num_tokens`` and ``is_greedy``
        - ``ranking_audits`` and ``ranking_audit_difference`` if the backend reports its computation
          paths
        - ``num_questions`` and the values of `coverage_fields`
        - ``media`` if the question is shown from a ready clip

    Raises:
        ValueError: As for `score_ranking`.

    >>> choices = ["open the tap", "take a cup"]
    >>> doc = {"sample_id": 7, "video_id": "P01_01", "choices": choices, "split_size": 923}
    >>> values = score_test_ranking(doc, [(2.5, False), (1.5, True)])
    >>> sorted(values), values["predictions"]["prediction"]
    (['coverage', 'num_questions', 'predictions', 'question_set', 'split_size', 'ties'], 'B')
    """
    return _rank(doc, responses, EGOPLAN.official["test"])[0]


def score_reply(doc: Doc, replies: Sequence[str]) -> Values:
    """Score one validation question of EgoPlan-Bench that was answered in writing.

    Args:
        doc: Row of the prepared dataset, with ``golden_choice_idx``.
        replies: A list of one text.

    Returns:
        - ``acc`` and the accuracy of the question's source, both over all questions: a reply
          without a readable letter is wrong
        - ``unparsed``: 1 if the reply has no readable letter, else 0
        - ``truncated``, ``truncated_of``: whether the limit on new tokens ended the reply; None if
          unknown
        - ``predictions``, ``split_size``, ``question_set``, ``num_questions``
        - ``coverage``: any reply covers its question
        - ``media`` if the question is shown from a ready clip

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 3355,
    ... }
    >>> score_reply(doc, ["The answer is (C)."])["acc"]
    {'score': 0.0, 'video_id': 'P01_01'}
    """
    return _score_reply(doc, replies, SOURCE_METRIC[doc["video_source"]], EGOPLAN.official["val"])


def score_reasoned(doc: Doc, replies: Sequence[str]) -> Values:
    r"""Score one validation question of EgoPlan-Bench, answered after a description (App. B.2).

    The reply also has a summary of the progress, before the description.

    Args:
        doc, replies: As for `score_reply`.

    Returns:
        As for `score_reply`, but a reply without a readable letter is counted in ``unparsed``, has
        no accuracy and lowers ``coverage``. Also:

        - ``incomplete``: 1 if the reply lacks a part, or they are in another order, as in a
          truncated reply; else 0
        - ``predictions``: with the texts of ``progress`` and ``observation``, None if missing

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 3355,
    ... }
    >>> values = score_reasoned(doc, ["Task progress: Nothing.\nCurrent observation: A sink."])
    >>> "acc" in values, values["unparsed"]["score"], values["incomplete"]["score"]
    (False, 1.0, 1.0)
    >>> values["predictions"]
    {'sample_id': 7, 'prediction': None, 'progress': 'Nothing.', 'observation': 'A sink.'}
    """
    letter, parts = parse_reasoned(replies[0], doc["choices"])
    values: Values = {}
    if letter is not None:
        right = _scored(doc, letter == doc["golden_choice_idx"])
        values["acc"] = right
        values[SOURCE_METRIC[doc["video_source"]]] = right
    is_complete = [*parts] == ["progress", "observation", "plan"] and all(parts.values())
    texts = {name: parts.get(name) for name in ("progress", "observation")}
    return {
        **values,
        "unparsed": _scored(doc, letter is None),
        "incomplete": _scored(doc, not is_complete),
        **_truncation(replies[0]),
        "predictions": _prediction(doc, letter) | texts,
        **_counts(doc, EGOPLAN.official["val"], scored=letter is not None),
    }


def score_planning_choices(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one question of EgoPlan-Bench2 whose choices were ranked by likelihood.

    Args:
        doc, responses: As for `score_ranking`.

    Returns:
        As for `score_ranking`, with the accuracy of the question's domain (`DOMAIN_METRIC`).

    Raises:
        ValueError: As for `score_ranking`.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Daily life",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 1321,
    ... }
    >>> losses = [(2.5, False), (1.5, True), (3.0, False), (2.0, False)]
    >>> values = score_planning_choices(doc, losses)
    >>> values["acc"] == values["acc_daily_life"], values["acc"]
    (True, {'score': 1.0, 'video_id': '0a1b'})
    """
    return _score_ranking(
        doc, responses, DOMAIN_METRIC[doc["domain"]], EGOPLAN_BENCH2.official["test"]
    )


def score_planning_letter(doc: Doc, replies: Sequence[str]) -> Values:
    """Score one question of EgoPlan-Bench2 that was answered in writing.

    Args:
        doc, replies: As for `score_reply`.

    Returns:
        As for `score_reply`, with the accuracy of the question's domain (`DOMAIN_METRIC`).

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Work", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 1321,
    ... }
    >>> score_planning_letter(doc, ["The answer is (C)."])["acc_work"]
    {'score': 0.0, 'video_id': '0a1b'}
    """
    return _score_reply(doc, replies, DOMAIN_METRIC[doc["domain"]], EGOPLAN_BENCH2.official["test"])


def score_published_letter(doc: Doc, replies: Sequence[str]) -> Values:
    """Score one written answer to EgoPlan-Bench2 as the authors' eval.py does.

    Args:
        doc, replies: As for `score_reply`.

    Returns:
        As for `score_planning_letter`, but the accuracies and the prediction are those of
        `first_letter`. The accuracy of the letter that a reply clearly claims is ``acc_clear``.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Work", "golden_choice_idx": "A",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 1321,
    ... }
    >>> values = score_published_letter(doc, ["Add water: B"])
    >>> values["acc"]["score"], values["acc_clear"]["score"], values["predictions"]["prediction"]
    (1.0, 0.0, 'A')
    """
    return _read_otherwise(doc, score_planning_letter(doc, replies), first_letter(replies[0]))


def score_preset(benchmark: str, name: str, doc: Doc, replies: Sequence[Any]) -> Values:
    """Score one question that was asked as a published pipeline does.

    Args:
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        name: Name of the pipeline in `load_presets`.
        doc: Row of the prepared dataset. In lm-eval, ``shown`` contains the settings of its visual
            input.
        replies: A list of one reply as generated, with its thoughts. If the pipeline ranks, the
            responses for `score_published_video`.

    Returns:
        - As for `score_published_video` if the pipeline ranks. Else as for `score_reply` or
          `score_planning_letter`, but the accuracies, the prediction and ``unparsed`` are those of
          the pipeline's reader. The accuracy of the letter that a reply clearly claims is
          ``acc_clear``.
        - ``unknown_fields``: `Preset.open_fields`, and whether images are shown instead of the
          pipeline's video; ``none`` without any

    Raises:
        LmmsEgoplanError, ValueError: As for `score_published_video`.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Work", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 1321,
    ... }
    >>> values = score_preset("egoplan_bench2", "flageval", doc, ["Let me see. B"])
    >>> values["acc"]["score"], values["acc_clear"]["score"], values["predictions"]["prediction"]
    (0.0, 0.0, 'L')
    >>> score_preset("egoplan_bench2", "physbrain-evalkit", doc, ["B"])["unknown_fields"]
    {'fields': 'media, prompt (stored questions and options not seen)'}
    """
    preset = load_presets(benchmark)[name]
    if preset.parser == LIKELIHOOD:
        values = score_published_video(doc, replies)
    else:
        score = score_reply if benchmark == EGOPLAN.benchmark else score_planning_letter
        letter = READERS[preset.parser](replies[0])
        values = _read_otherwise(doc, score(doc, replies), letter)
        values |= {"unparsed": _scored(doc, letter is None)}
    unknown = list(preset.open_fields)
    media = preset.media["media"]
    if doc.get("shown", {}).get("media", media) != media:
        unknown.append("video (shown as images)")
    return values | {"unknown_fields": {"fields": ", ".join(unknown) or "none"}}


def mean_score(values: Sequence[dict[str, Any]]) -> float:
    """Return the mean score of accuracies, or of ``unparsed``. Every value must have a score.

    >>> mean_score([{"score": 1.0, "video_id": "P01_01"}, {"score": 0.0, "video_id": "P01_02"}])
    0.5
    """
    return fmean(value["score"] for value in values)


def first_ids(values: Sequence[dict[str, Any]]) -> str:
    """Return the sample ids in all records, sorted; the first 20 of them.

    >>> first_ids([{"sample_id": 12}, {"sample_id": None}, {"sample_id": 7}])
    '7, 12'
    >>> first_ids([{"sample_id": None}])
    'none'
    """
    ids = sorted(value["sample_id"] for value in values if value["sample_id"] is not None)
    if not ids:
        return "none"
    texts = [str(sample_id) for sample_id in ids[:_NAMED]]
    if len(ids) > _NAMED:
        texts.append("...")
    return ", ".join(texts)


def num_predictions(values: Sequence[dict[str, Any]]) -> int:
    """Count the questions with a predicted letter.

    >>> num_predictions([{"sample_id": 1, "prediction": "B"}, {"sample_id": 2, "prediction": None}])
    1
    """
    return sum(value["prediction"] is not None for value in values)


def _score_published(doc: Doc, responses: Sequence[Any], *, authors_fail: bool) -> Values:
    if any(parse_loglikelihood(response).use is None for response in responses):
        raise LmmsEgoplanError(
            f"question {doc['sample_id']}: this task also scores the token that ends an answer; "
            "this backend does not. Use hf_vlm, llava or vllm_ranker in lmms-eval, hf-vlm-ranker "
            "or vllm-vlm-ranker in lm-eval, or the task without _published"
        )
    values = score_ranking(doc, responses)
    if authors_fail:
        accuracies = ("acc", "acc_sum", "acc_bytes", SOURCE_METRIC[doc["video_source"]])
        values = {name: value for name, value in values.items() if name not in accuracies}
        values["predictions"] = values["predictions"] | {"prediction": None}
        values["coverage"] = values["coverage"] | {"scored": False}
    failed_id = doc["sample_id"] if authors_fail else None
    return values | {
        "authors_fail": {"fails": authors_fail},
        "authors_fail_ids": {"sample_id": failed_id},
    }


def _score_ranking(doc: Doc, responses: Sequence[Any], part: str, official: int) -> Values:
    values, ranking = _rank(doc, responses, official)
    choices = {
        "acc": ranking.by_mean,
        "acc_sum": ranking.by_sum,
        "acc_bytes": ranking.by_bytes,
        part: ranking.by_mean,
    }
    gold = LETTERS.index(doc["golden_choice_idx"])
    accuracies = {}
    for metric, choice in choices.items():
        if choice is not None:
            accuracies[metric] = _scored(doc, choice == gold)
    return accuracies | values


def _score_reply(doc: Doc, replies: Sequence[str], part: str, official: int) -> Values:
    (reply,) = replies
    letter = parse_letter(reply, doc["choices"])
    right = letter == doc["golden_choice_idx"]
    return {
        "acc": _scored(doc, right),
        part: _scored(doc, right),
        "unparsed": _scored(doc, letter is None),
        **_truncation(reply),
        "predictions": _prediction(doc, letter),
    } | _counts(doc, official, scored=True)


def _truncation(reply: str) -> Values:
    truncated = is_truncated(reply)
    return {"truncated": {"truncated": truncated}, "truncated_of": {"truncated": truncated}}


def _read_otherwise(doc: Doc, values: Values, letter: str | None) -> Values:
    """Replace accuracies and prediction with those of another reader's letter.

    The previous accuracy becomes ``acc_clear``.
    """
    right = _scored(doc, letter == doc["golden_choice_idx"])
    return values | {
        "acc": right,
        _part_metric(doc): right,
        "predictions": _prediction(doc, letter),
        "acc_clear": values["acc"],
    }


def _part_metric(doc: Doc) -> str:
    """Return the metric of the question's domain, or of its source if it has no domain."""
    if doc.get("domain"):
        return DOMAIN_METRIC[doc["domain"]]
    return SOURCE_METRIC[doc["video_source"]]


def _rank(doc: Doc, responses: Sequence[Any], official: int) -> tuple[Values, Ranking]:
    scores = [parse_loglikelihood(response) for response in responses]
    ranking = rank(scores, doc["choices"])
    letter = None if ranking.by_mean is None else LETTERS[ranking.by_mean]
    choices = [_choice(score) for score in scores]
    values = {
        "ties": {"tied": ranking.tied},
        "predictions": _prediction(doc, letter) | {"choices": choices},
        **audit_values(scores),
        **_counts(doc, official, scored=letter is not None),
    }
    return values, ranking


def _scored(doc: Doc, score: float) -> dict[str, Any]:
    return {"score": float(score), "video_id": doc["video_id"]}


def _prediction(doc: Doc, letter: str | None) -> dict[str, Any]:
    return {"sample_id": doc["sample_id"], "prediction": letter}


def _counts(doc: Doc, official: int, *, scored: bool) -> Values:
    origin = RENDERED_SCENES if doc["video_id"].startswith(RENDERED) else None
    counts = {
        **coverage_fields(doc, official, scored, origin),
        "num_questions": {"sample_id": doc["sample_id"]},
    }
    if doc.get("clip_frames") is not None:
        counts["media"] = {"media": doc.get("media") or READY_CLIPS}
    return counts


def _choice(score: Loglikelihood) -> dict[str, Any]:
    return {
        "loss": _finite(score.loss),
        "logprob": _finite(score.logprob),
        "num_tokens": score.num_tokens,
        "is_greedy": score.is_greedy,
    }


def _finite(value: float | None) -> float | None:
    """Replace a number that is not finite with None, as JSON cannot represent it."""
    return value if value is not None and math.isfinite(value) else None
