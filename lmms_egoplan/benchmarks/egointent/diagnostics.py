"""Score EgoIntent's replies without references: the task egointent_diagnostics.

Its judge sees the frames. The benchmark's release of August 2026 adds these four scores to the
paper's:

- GF: Is the prediction supported by what is visible?
- HIC: Do local and procedural intent form a goal hierarchy?
- TPC: Do the current and future predictions follow a coherent temporal order?
- NPF: Is the next action immediately feasible from the observed state?

The prompts in ``diagnostics.yaml`` are the project's own, with the release's names and definitions
of the fields.

As in `metrics`, a score is 0 if one of its fields is missing. A score that no judge has rated only
lowers the coverage.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loguru import logger
from PIL import Image
from pydantic import model_validator

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egointent.frames import thin
from lmms_egoplan.benchmarks.egointent.judge import (
    KEPT,
    JudgedStep,
    Prediction,
    Rating,
    check_judged,
)
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE
from lmms_egoplan.benchmarks.egointent.metrics import mean_of_ratings, values_of
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.judging.judge import Judge
from lmms_egoplan.judging.judgement import DEMO, Judgement, JudgeRequest, Prompt
from lmms_egoplan.judging.probe import PROBE
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import sanitize
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import module_yaml

# Bump when the prompts or the images for the judge change: scores of different versions are not
# comparable.
DIAGNOSTICS_VERSION = "4"

# The fields that each score rates.
SCORES = {
    "gf": FIELDS,
    "hic": ("local_intent", "global_intent"),
    "tpc": ("local_intent", "next_step_plan"),
    "npf": ("next_step_plan",),
}

_PROMPTS = module_yaml(__file__)

# Must read images, unlike the judge of the paper's scores.
DEFAULT_JUDGE = "Qwen/Qwen3-VL-32B-Instruct"

# In pixels: one tile of OpenAI's image models. Hands and objects remain recognizable.
LONGER_SIDE = 512
# Covers all frames of the median step (1.87 s at 6 frames per second, sec. 3.4). Longer steps are
# thinned.
MAX_IMAGES = 16

_QUALITY = 85
# Side of the images of the test request, in pixels. Some models refuse smaller ones.
_PROBE_SIDE = 64

# Number of steps whose encoded frames, up to 1 MB each, are in memory at the same time.
_CHUNK = 128


@dataclass(frozen=True, kw_only=True)
class Diagnosis(JudgedStep):
    """A step's prediction and its reference-free scores.

    Attributes:
        scores: The score for each name in `SCORES`.
    """

    WHAT = "a diagnosis, as returned by `diagnose`"
    RATINGS = "scores"
    RATED = SCORES

    scores: dict[str, Rating | None]

    _check = model_validator(mode="after")(check_judged)


def diagnostics_prompt(name: str, prediction: Mapping[str, str]) -> str:
    """Return the request for one score; the frames are sent with it.

    Args:
        name: A name in `SCORES`.
        prediction: Texts by field, sanitized for the judge, at least of the score's fields. Other
            fields are ignored.
    """
    rated_fields = {RELEASE_NAMES[field]: prediction[field] for field in SCORES[name]}
    return _PROMPTS["prompt"].format(
        meanings="\n".join(f"{field}: {_PROMPTS['meanings'][field]}" for field in rated_fields),
        question=_PROMPTS["questions"][name],
        prediction="\n".join(f"{field}: {text}" for field, text in rated_fields.items()),
    )


def diagnose(predictions: Sequence[Prediction], settings: JudgeSettings | None) -> list[Diagnosis]:
    """Rate the four `SCORES` of each prediction with a judge that sees the frames.

    The diagnoses are in the order of the predictions.

    Each score takes one request. If a field of the score is missing, the score is 0, without a
    request. If a score could not be judged or the frames cannot be read, it is None, with an error.
    If there is a judge, a warning names such scores.

    Args:
        predictions: Predictions of a task. Their `Prediction.load_images` is called at most once,
            and only if needed.
        settings: The judge; None without a judge.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    if settings is not None and settings.model == DEMO:
        logger.warning(
            "EgoIntent diagnostics: the demo judge cannot rate frames. Set a judge that "
            "reads images"
        )
    elif settings is not None:
        prompts = [_prompts(prediction) for prediction in predictions]
        judge = Judge("EgoIntent diagnostics", settings, KEPT)
        num_chunks = math.ceil(len(predictions) / _CHUNK)
        for number in range(num_chunks):
            chunk = slice(number * _CHUNK, (number + 1) * _CHUNK)
            part = f"{number + 1}/{num_chunks}"
            judged[chunk] = _judge_chunk(
                judge, settings.model, predictions[chunk], prompts[chunk], part
            )
    diagnoses = Diagnosis.of_all(predictions, judged)
    if settings is not None:  # otherwise, nobody expects ratings
        Diagnosis.warn_of_missing(diagnoses, "EgoIntent diagnostics", "scores")
    return diagnoses


def _prompts(prediction: Prediction) -> dict[str, str]:
    """Return the prompt of each score that can be asked."""
    texts = {field: sanitize(text)[0] for field, text in prediction.fields.items()}
    return {name: diagnostics_prompt(name, texts) for name in Diagnosis.askable(texts)}


def _judge_chunk(
    judge: Judge,
    model: str,
    predictions: Sequence[Prediction],
    prompts: Sequence[Mapping[str, str]],
    part: str,
) -> list[dict[str, Judgement]]:
    """Ask the judge about predictions whose frames fit into memory together.

    Args:
        judge: The judge.
        model: Name of its model.
        predictions: The predictions.
        prompts: The prompts of each prediction by score.
        part: Name of this part in the progress bar.

    Returns:
        The judgements of each prediction by score.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    places: list[tuple[int, str]] = []
    requests: list[JudgeRequest] = []
    for index, (prediction, step_prompts) in enumerate(zip(predictions, prompts, strict=True)):
        images: tuple[str, ...] = ()
        if step_prompts and judge.failure is None:
            try:
                images = encode_frames(prediction.load_images())
            except FrameError as error:
                reason = f"the frames cannot be read: {error}"
                unasked = Judgement(None, None, model, error=reason)
                judged[index] = dict.fromkeys(step_prompts, unasked)
                continue
        for name, prompt in step_prompts.items():
            places.append((index, name))
            request_id = f"{prediction.step_id} {name}"
            requests.append(JudgeRequest(request_id, prompt, "", "", images))
    judgements = judge.rate(requests, SCALE, part)
    for (index, name), judgement in zip(places, judgements, strict=True):
        judged[index][name] = judgement
    return judged


def probe_form(settings: JudgeSettings) -> tuple[JudgeSettings, Prompt]:
    """Return the settings and the form of prompts, with as many images as any, for `probe`."""
    blank = Image.new("RGB", (_PROBE_SIDE, _PROBE_SIDE))
    return settings, replace(PROBE, images=encode_frames([blank] * MAX_IMAGES))


def encode_frames(frames: Sequence[Image.Image]) -> tuple[str, ...]:
    """Encode frames as JPEG data URLs.

    At most 16 frames are encoded, evenly spaced and including the last. Sides longer than 512 px
    are scaled down.

    Raises:
        FrameError: There are no frames.
    """
    if not frames:
        raise FrameError("the step has no frames")
    return tuple(
        jpeg_url(frames[index], LONGER_SIDE, _QUALITY)
        for index in thin(range(len(frames)), MAX_IMAGES)
    )


def score_diagnostics(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one step.

    Args:
        doc: A row of the prepared dataset.
        responses: One text from `Diagnosis`.

    Returns:
        Values by name:

        - Each of `SCORES`, with a score (0..100) only if the judge rated it or a field is missing.
        - ``diagnostics``: with the mean of the four as score if all exist; also ``scores`` and
          ``missing``.
        - ``judge_coverage``, ``parsed``, ``truncated``, ``suspect``, ``details`` and the values of
          `coverage_values`, as in `score_step`.

    Raises:
        ValueError: There is not exactly one response, it is not a diagnosis, or it belongs to
            another step.

    >>> from lmms_egoplan.benchmarks.egointent.judge import Prediction
    >>> answer = Prediction(
    ...     step_id="P01/3",
    ...     fields={"next_step_plan": "spread butter"},
    ...     truncated=False,
    ...     frames_shown=8,
    ...     frames_sampled=30,
    ...     references={},
    ... )
    >>> (diagnosis,) = diagnose([answer], None)  # without a judge
    >>> doc = {
    ...     "step_id": "P01/3",
    ...     "video_id": "P01",
    ...     "environment": "indoor",
    ...     "scenario": "cooking",
    ...     "split_size": 300,
    ... }
    >>> values = score_diagnostics(doc, [diagnosis.to_text()])
    >>> values["gf"], values["npf"]
    ({'cluster': 'P01', 'score': 0.0, 'missing': True}, {'cluster': 'P01', 'missing': False})
    >>> values["judge_coverage"]
    {'found': 1, 'judged': 0}
    """
    (text,) = responses
    diagnosis = Diagnosis.from_text(text)
    values = values_of(diagnosis, doc, "diagnostics")
    values["diagnostics"] = {
        **values["diagnostics"],
        "scores": diagnosis.scores,
        "missing": diagnosis.missing,
    }
    return values


def mean_diagnostics(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean of a run's four scores, 0..100; NaN if one of them has no value.

    >>> scores = {"gf": 80.0, "hic": 60.0, "tpc": 40.0, "npf": 20.0}
    >>> mean_diagnostics([{"scores": scores, "missing": []}])
    50.0
    """
    return mean_of_ratings(values, "scores", SCORES)
