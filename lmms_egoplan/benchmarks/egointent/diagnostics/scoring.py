"""Reference-free scores: a judge that sees the frames rates a prediction, and never sees the reference.

Beside them, the frames as it is sent them, and what they cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loguru import logger
from PIL import Image
from pydantic import model_validator

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import DIAGNOSTICS_VERSION, SCORES, diagnostics_prompt
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE
from lmms_egoplan.benchmarks.egointent.step_answer import JudgedStep, Rating, StepAnswer, check_judged, step_rater
from lmms_egoplan.benchmarks.egointent.visuals import thin
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.media.image_files import jpeg_url

if TYPE_CHECKING:
    from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["DEFAULT_JUDGE", "DIAGNOSTICS_VERSION", "DiagnosedStep", "Diagnosis", "diagnose"]

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
class DiagnosedStep(StepAnswer):
    """A model's answer about a step, to be diagnosed.

    load_images: reads the frames that the model was shown, oldest first; called once, and only if they are needed.
    """

    load_images: Callable[[], Sequence[Image.Image]]


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


_Key = tuple[int, str]
"""Index of a step, name of a score."""


def diagnose(steps: Sequence[DiagnosedStep], settings: "JudgeSettings | None") -> list[Diagnosis]:
    """Have a judge that sees the frames give each prediction the four `SCORES`; every prediction is kept, in order.

    One request for each score. A score of which a field is missing is 0 and not asked about. A score that could not be
    judged is None with an error, also where the frames cannot be read; where there are such, a warning names them.
    Before anything is asked, the log tells how much that will be at most.

    Args:
        steps: of a task.
        settings: the judge; None where none is set.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in steps]
    if settings is not None and settings.model == DEMO:
        logger.warning(
            "EgoIntent diagnostics: the demo judge compares with references, and sees no images; set another"
        )
        settings = None
    if settings is not None:
        prompts = {
            (index, name): diagnostics_prompt(name, {field: sanitize(text)[0] for field, text in step.fields.items()})
            for index, step in enumerate(steps)
            for name in Diagnosis.askable(step.fields)
        }
        _tell_cost(steps, prompts, settings)
        for (index, name), judgement in _judge(steps, prompts, settings).items():
            judged[index][name] = judgement
    return Diagnosis.of_all(steps, judged, "EgoIntent diagnostics", "scores")


def _tell_cost(steps: Sequence[DiagnosedStep], prompts: Mapping[_Key, str], settings: "JudgeSettings") -> None:
    images = sum(num_images(steps[index].frames_shown) for index, _ in prompts)
    text = sum(map(len, prompts.values())) // _CHARACTERS_PER_TOKEN
    logger.info(
        f"EgoIntent diagnostics: this process asks {settings.model} {len(prompts):,} times, with {images:,} images of "
        f"at most {LONGER_SIDE} x {LONGER_SIDE} px together, up to about {images * OPENAI_TOKENS + text:,} input "
        f"tokens by OpenAI's rule for GPT-4o ({OPENAI_TOKENS} an image) or {images * QWEN_TOKENS + text:,} by "
        f"Qwen3-VL's ({QWEN_TOKENS}), the text's {text:,} among them. Less where something was judged before; a "
        "reply without a rating is asked for up to twice more"
    )


def _judge(
    steps: Sequence[DiagnosedStep], prompts: Mapping[_Key, str], settings: "JudgeSettings"
) -> dict[_Key, Judgement]:
    rater = step_rater("EgoIntent diagnostics", settings)
    judgements: dict[_Key, Judgement] = {}
    for start in range(0, len(steps), _CHUNK):
        requests: dict[_Key, JudgeRequest] = {}
        for index in range(start, min(start + _CHUNK, len(steps))):
            step, mine = steps[index], [(index, name) for name in SCORES if (index, name) in prompts]
            try:
                images = encode_frames(step.load_images()) if mine and rater.failure is None else ()
            except FrameError as error:
                unasked = Judgement(None, None, settings.model, error=f"the frames cannot be read: {error}")
                judgements |= dict.fromkeys(mine, unasked)
                continue
            requests |= {key: JudgeRequest(f"{step.step_id} {key[1]}", prompts[key], "", "", images) for key in mine}
        part = f"{start // _CHUNK + 1}/{-(-len(steps) // _CHUNK)}"
        judgements |= zip(requests, rater.rate(list(requests.values()), SCALE, part), strict=True)
    return judgements


def num_images(frames_shown: int) -> int:
    """How many images a judge is sent of a step of which the model was shown so many frames."""
    return min(frames_shown, MAX_IMAGES)


def encode_frames(frames: Sequence[Image.Image]) -> tuple[str, ...]:
    """Frames as data URLs of JPEG files: at most 16, evenly spaced with the last, and none with a side above 512 px.

    Raises:
        FrameError: there are none.
    """
    if not frames:
        raise FrameError("the step has no frames")
    return tuple(jpeg_url(frames[index], LONGER_SIDE, _QUALITY) for index in thin(range(len(frames)), MAX_IMAGES))
