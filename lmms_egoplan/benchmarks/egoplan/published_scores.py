"""Score questions that were asked as a published pipeline does."""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egoplan.letter import pipeline_reader, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_BENCH2_TEST, EGOPLAN_VAL
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, Preset, load_presets
from lmms_egoplan.benchmarks.egoplan.published import authors_fail_at_video, clips_as_published
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood


def score_published_video(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one question of EgoPlan-Bench that was ranked as the authors' code does.

    It shows `published_frames`.

    Args:
        doc: As for `score_ranking`, with ``past_actions`` and ``current_observation_frame``.
        responses: As for `score_ranking`, to the choices of `prompts.choices_with_end`.

    Returns:
        As for `score_ranking`, and:

        - in ``details``: ``authors_fail``, whether the authors' code fails on the question, and
          ``authors_fail_ids``, the sample id of such a question, else None. Such a question has no
          accuracy and no prediction, and lowers ``coverage``: the authors have no answer to compare
          with. Its likelihoods are logged

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
    {'cluster': 'P01_01', 'score': 1.0}
    """
    return _score_published(doc, responses, authors_fail=authors_fail_at_video(doc))


def score_published_clips(doc: Doc, responses: Sequence[Any]) -> Values:
    """Score one question of EgoPlan-Bench that was ranked after `published_clips`.

    Args:
        doc, responses: As for `score_published_video`.

    Returns:
        As for `score_published_video`, and:

        - in ``details``, ``past_observation``: whether a frame after the observation is shown, or
          would be without a ready clip
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
    >>> values["details"]["past_observation"], "acc" in values, "acc_within" in values
    (True, True, False)
    >>> doc["past_actions"][0]["stop_frame"] = 16
    >>> values = score_published_clips(doc, responses)
    >>> values["details"]["authors_fail"], "acc" in values, values["coverage"]
    (True, False, {'scored': False, 'of': 3355})
    """
    clips = clips_as_published(doc)
    values = _score_published(doc, responses, authors_fail=clips.authors_fail)
    last_number = max((max(clip) for clip in clips.frames), default=-1)
    runs_past = last_number > doc["current_observation_frame"]
    if "acc" in values and not runs_past:
        values["acc_within"] = values["acc"]
    values["details"] = {**values["details"], "past_observation": runs_past}
    return values


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
        - As for `score_published_video` if the pipeline ranks. Else as for `score_letter` with the
          pipeline's reader.
        - in ``details``, ``unknown_fields``: `Preset.open_fields`, and whether images are shown
          instead of the pipeline's video; ``none`` without any

    Raises:
        LmmsEgoplanError, ValueError: As for `score_published_video`.

    >>> doc = {
    ...     "sample_id": "0a1b_2", "video_id": "0a1b", "domain": "Work", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 1321,
    ... }
    >>> values = score_preset("egoplan_bench2", "flageval", doc, ["Let me see. B"])
    >>> values["acc"]["score"], values["acc_clear"]["score"]
    (0.0, 0.0)
    >>> values["details"]["predictions"]["prediction"]
    'L'
    >>> values = score_preset("egoplan_bench2", "physbrain-evalkit", doc, ["B"])
    >>> values["details"]["unknown_fields"]
    'media, prompt (stored questions and options not seen)'
    """
    preset = load_presets(benchmark)[name]
    if preset.parser == LIKELIHOOD:
        values = score_published_video(doc, replies)
    else:
        split = EGOPLAN_VAL if benchmark == EGOPLAN.benchmark else EGOPLAN_BENCH2_TEST
        values = score_letter(doc, replies[0], split, pipeline_reader(preset.parser))
    unknown = ", ".join(_unknown_fields(preset, doc)) or "none"
    values["details"] = {**values["details"], "unknown_fields": unknown}
    return values


def _unknown_fields(preset: Preset, doc: Doc) -> list[str]:
    fields = list(preset.open_fields)
    media = preset.media["media"]
    if doc.get("shown", {}).get("media", media) != media:
        fields.append("video (shown as images)")
    return fields


def _score_published(doc: Doc, responses: Sequence[Any], *, authors_fail: bool) -> Values:
    if any(parse_loglikelihood(response).use is None for response in responses):
        raise LmmsEgoplanError(
            f"question {doc['sample_id']}: this task also scores the token that ends an answer; "
            "this backend does not. Use hf_vlm, llava or vllm_ranker in lmms-eval, hf-vlm-ranker "
            "or vllm-vlm-ranker in lm-eval, or the task without _published"
        )
    values = score_ranking(doc, responses, EGOPLAN_VAL)
    details = {**values["details"], "authors_fail": authors_fail, "authors_fail_ids": None}
    if authors_fail:
        for metric in ("acc", "acc_sum", "acc_bytes", EGOPLAN_VAL.part_metric(doc)):
            values.pop(metric, None)
        values["coverage"] = {**values["coverage"], "scored": False}
        details["predictions"] = {**details["predictions"], "prediction": None}
        details["authors_fail_ids"] = doc["sample_id"]
    values["details"] = details
    return values
