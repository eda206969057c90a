"""The task egointent_diagnostics: four scores without references, by a judge that is shown the frames.

The benchmark's current release adds them to the paper's: GF, whether the prediction is supported by what is visible;
HIC, whether local and procedural intent form a goal hierarchy; TPC, whether the current and future predictions follow a
coherent temporal order; NPF, whether the next action is immediately feasible from the observed state. The prompts are
the project's own, in ``diagnostics.yaml``, with the release's names and definitions of the fields.

As in `metrics`, a score is 0 if a field that it is about is missing, and one that no judge has rated counts only
against the coverage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loguru import logger
from PIL import Image
from pydantic import model_validator

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE
from lmms_egoplan.benchmarks.egointent.metrics import mean_of_ratings, values_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.scoring import KEPT, JudgedStep, Prediction, Rating, check_judged
from lmms_egoplan.benchmarks.egointent.visuals import thin
from lmms_egoplan.judging.judge import Judge
from lmms_egoplan.judging.judgement import DEMO, Judgement, JudgeRequest
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import sanitize
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.paths import yaml_beside

# Raise with every change of the prompts or of what the judge is shown: scores of different versions do not compare.
DIAGNOSTICS_VERSION = "3"

# By name, the fields that a score is about.
SCORES = {
    "gf": FIELDS,
    "hic": ("local_intent", "global_intent"),
    "tpc": ("local_intent", "next_step_plan"),
    "npf": ("next_step_plan",),
}

_PROMPTS = yaml_beside(__file__)

# The judge must read images, which the text score's does not.
DEFAULT_JUDGE = "Qwen/Qwen3-VL-32B-Instruct"

# One tile of OpenAI's image models; hands and objects can still be told.
LONGER_SIDE = 512
# All frames of the median step (1.87 s at 6 frames per second, sec. 3.4); of longer ones they are thinned.
MAX_IMAGES = 16

_QUALITY = 85
# https://platform.openai.com/docs/guides/images-vision, for GPT-4o: in high detail 85 for an image and 170 for each
# tile of 512 x 512 px.
OPENAI_TOKENS = 85 + 170
# Qwen3-VL: one for each 32 x 32 px, sides being rounded to multiples of 32.
QWEN_TOKENS = round(LONGER_SIDE / 32) ** 2

# Steps whose encoded frames, up to 1 MB each, are held in memory at once.
_CHUNK = 128
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True)
class Diagnosis(JudgedStep):
    """A step's prediction and its reference-free scores.

    scores: of each of `SCORES`.
    """

    WHAT = "a diagnosis as `diagnose` leaves it"
    RATINGS = "scores"
    RATED = SCORES

    scores: dict[str, Rating | None]

    _check = model_validator(mode="after")(check_judged)


def diagnostics_prompt(name: str, prediction: Mapping[str, str]) -> str:
    """Return the request for one score, which goes with the frames.

    Args:
        name: of `SCORES`.
        prediction: texts by field, as a judge may be shown them; at least of the score's fields, and only those are
            shown.
    """
    needed = {RELEASE_NAMES[field]: prediction[field] for field in SCORES[name]}
    return _PROMPTS["prompt"].format(
        meanings="\n".join(f"{field}: {_PROMPTS['meanings'][field]}" for field in needed),
        question=_PROMPTS["questions"][name],
        prediction="\n".join(f"{field}: {text}" for field, text in needed.items()),
    )


def diagnose(predictions: Sequence[Prediction], settings: JudgeSettings | None) -> list[Diagnosis]:
    """Have a judge that sees the frames give each prediction the four `SCORES`; keep every prediction, in order.

    Each score is one request. A score that lacks a field is 0 and not asked about. A score that could not be judged is
    None with an error, also if the frames cannot be read; a warning names such scores. Before anything is asked, the
    log states an upper bound of the cost.

    Args:
        predictions: Predictions of a task, with `Prediction.load_images`, which is called once and only if needed.
        settings: The judge; None if none is set.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    if settings is not None and settings.model == DEMO:
        logger.warning(
            "EgoIntent diagnostics: the demo judge compares with references, and sees no images; set another"
        )
    elif settings is not None:
        prompts = [
            {name: diagnostics_prompt(name, texts) for name in Diagnosis.askable(texts)}
            for texts in (
                {field: sanitize(text)[0] for field, text in prediction.fields.items()} for prediction in predictions
            )
        ]
        _log_cost(predictions, prompts, settings)
        judge = Judge("EgoIntent diagnostics", settings, KEPT)
        for start in range(0, len(predictions), _CHUNK):
            requests: list[tuple[int, str, JudgeRequest]] = []
            for index in range(start, min(start + _CHUNK, len(predictions))):
                prediction = predictions[index]
                try:
                    is_asked = prompts[index] and judge.failure is None
                    images = encode_frames(prediction.load_images()) if is_asked else ()
                except FrameError as error:
                    unasked = Judgement(None, None, settings.model, error=f"the frames cannot be read: {error}")
                    judged[index] = dict.fromkeys(prompts[index], unasked)
                    continue
                requests += [
                    (index, name, JudgeRequest(f"{prediction.step_id} {name}", prompt, "", "", images))
                    for name, prompt in prompts[index].items()
                ]
            part = f"{start // _CHUNK + 1}/{-(-len(predictions) // _CHUNK)}"
            judgements = judge.rate([request for *_, request in requests], SCALE, part)
            for (index, name, _), judgement in zip(requests, judgements, strict=True):
                judged[index][name] = judgement
    return Diagnosis.of_all(predictions, judged, "EgoIntent diagnostics", "scores")


def _log_cost(predictions: Sequence[Prediction], prompts: Sequence[Mapping[str, str]], settings: JudgeSettings) -> None:
    requests = sum(map(len, prompts))
    images = sum(min(x.frames_shown, MAX_IMAGES) * len(of_x) for x, of_x in zip(predictions, prompts, strict=True))
    text = sum(len(prompt) for of_step in prompts for prompt in of_step.values()) // _CHARACTERS_PER_TOKEN
    logger.info(
        f"EgoIntent diagnostics: this process asks {settings.model} {requests:,} times, with {images:,} images of "
        f"at most {LONGER_SIDE} x {LONGER_SIDE} px together, up to about {images * OPENAI_TOKENS + text:,} input "
        f"tokens by OpenAI's rule for GPT-4o ({OPENAI_TOKENS} an image) or {images * QWEN_TOKENS + text:,} by "
        f"Qwen3-VL's ({QWEN_TOKENS}), the text's {text:,} among them. Less where something was judged before; a "
        "reply without a rating is asked for up to twice more"
    )


def encode_frames(frames: Sequence[Image.Image]) -> tuple[str, ...]:
    """Encode frames as JPEG in data URLs: at most 16, evenly spaced with the last, without sides above 512 px.

    Raises:
        FrameError: there are none.
    """
    if not frames:
        raise FrameError("the step has no frames")
    return tuple(jpeg_url(frames[index], LONGER_SIDE, _QUALITY) for index in thin(range(len(frames)), MAX_IMAGES))


def score_diagnostics(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one step.

    Args:
        doc: a row of the prepared dataset.
        responses: one text of `Diagnosis`.

    Returns:
        Each of `SCORES`, with ``score`` (0..100) only where there is one; ``diagnostics``, with all fields of
        `Diagnosis`, ``missing`` (scores), ``video_id``, ``environment``, ``scenario`` or, of a Goal-Step step,
        ``category`` and, only where all four are there, their mean as ``score``; ``judge_coverage``, ``parsed``,
        ``truncated``, ``truncated_of``, ``suspect``, ``judge_model``, ``media``, ``num_steps`` and those of `covered`.

    Raises:
        ValueError: not one response, one that is no diagnosis, or the answer to another step.

    >>> from lmms_egoplan.benchmarks.egointent.scoring import Prediction
    >>> answer = Prediction(
    ...     step_id="P01/3", fields={"next_step_plan": "spread butter"}, truncated=False, frames_shown=8,
    ...     frames_sampled=30, references={},
    ... )
    >>> (diagnosis,) = diagnose([answer], None)  # without a judge
    >>> doc = {
    ...     "step_id": "P01/3", "video_id": "P01", "environment": "indoor", "scenario": "cooking", "split_size": 300,
    ... }
    >>> values = score_diagnostics(doc, [diagnosis.to_text()])
    >>> values["gf"], values["npf"]
    ({'missing': True, 'video_id': 'P01', 'score': 0.0}, {'missing': False, 'video_id': 'P01'})
    >>> values["judge_coverage"]
    {'found': 1, 'judged': 0}
    """
    (text,) = responses
    return values_of(Diagnosis.from_text(text), doc, "diagnostics")


def mean_diagnostics(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean of the four scores' means over a run's steps, 0..100; NaN if one of them has none.

    >>> scores = {"gf": 80.0, "hic": 60.0, "tpc": 40.0, "npf": 20.0}
    >>> mean_diagnostics([{"scores": scores, "missing": [], "video_id": "P01"}])
    50.0
    """
    return mean_of_ratings(values, "scores", SCORES)
