"""Reference-free scores: a judge that sees the frames rates a prediction, and never sees the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loguru import logger
from PIL import Image
from pydantic import model_validator

from lmms_egoplan.benchmarks.egointent.diagnostics.frames import (
    LONGER_SIDE,
    OPENAI_TOKENS,
    QWEN_TOKENS,
    encode_frames,
    num_images,
)
from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import (
    DIAGNOSTICS_VERSION,
    SCORES,
    diagnostics_prompt,
)
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE
from lmms_egoplan.benchmarks.egointent.step_answer import (
    JUDGED_AGAIN,
    JudgedStep,
    Rating,
    StepAnswer,
    check_judged,
    warn_of_unjudged,
)
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.rater import Rater
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.media.frames import FrameError

if TYPE_CHECKING:
    from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["DEFAULT_JUDGE", "DIAGNOSTICS_VERSION", "DiagnosedStep", "Diagnosis", "diagnose"]

# The judge must read images, which the text score's does not.
DEFAULT_JUDGE = "Qwen/Qwen3-VL-32B-Instruct"

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


def diagnose(
    steps: Sequence[DiagnosedStep], settings: "JudgeSettings | None", *, show_progress: bool = True
) -> list[Diagnosis]:
    """Have a judge that sees the frames give each prediction the four `SCORES`; every prediction is kept, in order.

    One request for each score. A score of which a field is missing is 0 and not asked about. A score that could not be
    judged is None with an error, also where the frames cannot be read; where there are such, a warning names them.
    Before anything is asked, the log tells how much that will be at most.

    Args:
        steps: of a task.
        settings: the judge; None where none is set.
        show_progress: a progress bar for each part of the steps.
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
        for (index, name), judgement in _judge(steps, prompts, settings, show_progress).items():
            judged[index][name] = judgement
    diagnoses = [Diagnosis.of(*answer) for answer in zip(steps, judged, strict=True)]
    warn_of_unjudged("EgoIntent diagnostics", diagnoses, "scores")
    return diagnoses


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
    steps: Sequence[DiagnosedStep], prompts: Mapping[_Key, str], settings: "JudgeSettings", show_progress: bool
) -> dict[_Key, Judgement]:
    rater = Rater("EgoIntent diagnostics", settings, JUDGED_AGAIN, show_progress)
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
