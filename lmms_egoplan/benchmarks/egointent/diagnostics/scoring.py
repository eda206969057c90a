"""Reference-free scores: a judge that sees the frames rates a prediction, and never sees the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loguru import logger
from PIL import Image
from pydantic import StrictBool, StrictInt, model_validator

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
    askable,
    diagnostics_prompt,
)
from lmms_egoplan.benchmarks.egointent.judge_protocol import SCALE
from lmms_egoplan.benchmarks.egointent.step_answer import FoundFields, Rating, StepAnswer, check_kept, kept_verdicts
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.missing_ratings import warn_of_missing_ratings
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText

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


@dataclass(frozen=True)
class Diagnosis(TextRecord):
    """A step's prediction and its scores.

    step_id: of the record.
    fields: the predicted text of each field that was found in the reply.
    scores: of each of `SCORES`, 0..100; 0 where one of its fields is missing, None where it is not judged.
    judgements: of each, raw text of the judge's last reply; None if none came or a field is missing.
    judges: of each, the model, as the endpoint names it; None where no judge is set or a field is missing.
    errors: of each, why there is no score; None if there is one.
    suspect: the fields that look as if they wrote their own rating (`sanitize`).
    truncated: whether the reply ends at the limit of new tokens; None where unknown.
    frames_shown, frames_sampled: how many frames the model was shown, of how many at 6 per second.
    reply: all that the model wrote, without its thinking; None in what earlier versions logged.
    media: the form in which the model was shown the frames (`media_shown`); None in what earlier versions logged.
    """

    WHAT = "a diagnosis as `diagnose` leaves it"

    step_id: AnyText
    fields: FoundFields
    scores: dict[str, Rating | None]
    judgements: dict[str, AnyText | None]
    judges: dict[str, AnyText | None]
    errors: dict[str, AnyText | None]
    suspect: list[AnyText]
    truncated: StrictBool | None
    frames_shown: StrictInt
    frames_sampled: StrictInt
    reply: AnyText | None = None
    media: AnyText | None = None

    @model_validator(mode="after")
    def _check(self) -> "Diagnosis":
        check_kept(self, "scores", SCORES)
        return self

    @property
    def missing(self) -> list[str]:
        """Scores of which a field was not found in the reply."""
        return [name for name in SCORES if name not in askable(self.fields)]


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
    sanitized = [{field: sanitize(text) for field, text in step.fields.items()} for step in steps]
    judgements: dict[_Key, Judgement] = {}
    if settings is not None and settings.model == DEMO:
        logger.warning(
            "EgoIntent diagnostics: the demo judge compares with references, and sees no images; set another"
        )
        settings = None
    if settings is not None:
        prompts = {
            (index, name): diagnostics_prompt(name, {field: shown for field, (shown, _) in sanitized[index].items()})
            for index, step in enumerate(steps)
            for name in askable(step.fields)
        }
        _tell_cost(steps, prompts, settings)
        judgements = _judge(steps, prompts, settings, show_progress)
    diagnoses = [
        _diagnosis(
            step,
            [field for field, (_, suspect) in sanitized[index].items() if suspect],
            {name: judgements.get((index, name)) for name in askable(step.fields)},
        )
        for index, step in enumerate(steps)
    ]
    unjudged = [
        f"{diagnosis.step_id} {name}"
        for diagnosis in diagnoses
        for name, score in diagnosis.scores.items()
        if score is None
    ]
    asked = sum(len(askable(diagnosis.fields)) for diagnosis in diagnoses)
    warn_of_missing_ratings("EgoIntent diagnostics", unjudged, asked, "scores")
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
    from lmms_egoplan.judging.judge import JudgeError, judge_all

    judgements: dict[_Key, Judgement] = {}
    for start in range(0, len(steps), _CHUNK):
        requests: dict[_Key, JudgeRequest] = {}
        for index in range(start, min(start + _CHUNK, len(steps))):
            mine = {(index, name): prompts[index, name] for name in SCORES if (index, name) in prompts}
            if not mine:
                continue
            try:
                images = encode_frames(steps[index].load_images())
            except FrameError as error:
                judgements |= dict.fromkeys(mine, _unasked(settings, f"the frames cannot be read: {error}"))
                continue
            for key, prompt in mine.items():
                requests[key] = JudgeRequest(f"{steps[index].step_id} {key[1]}", prompt, "", "", images)
        if not requests:
            continue
        try:
            title = f"EgoIntent diagnostics {start // _CHUNK + 1}/{-(-len(steps) // _CHUNK)}"
            found = judge_all(list(requests.values()), SCALE, settings, title=title, show_progress=show_progress)
        except JudgeError as error:
            logger.error(
                f"EgoIntent diagnostics: {error}\nThe answers are kept, and what has been judged is stored: a run with "
                "the same answers asks for the rest only"
            )
            rest = dict.fromkeys(prompts, _unasked(settings, f"not judged: {error}"))
            return rest | judgements | dict(zip(requests, error.judgements, strict=True))
        judgements |= dict(zip(requests, found, strict=True))
    return judgements


def _unasked(settings: "JudgeSettings", error: str) -> Judgement:
    return Judgement(None, None, settings.model, error=error)


def _diagnosis(step: DiagnosedStep, suspect: list[str], judged: Mapping[str, Judgement | None]) -> Diagnosis:
    """`judged` has the scores that can be asked about, with None where no judge is set."""
    verdicts = {name: judgement and (judgement.rating, judgement) for name, judgement in judged.items()}
    scores, texts = kept_verdicts(SCORES, verdicts)
    return Diagnosis(**step.kept(), **texts, scores=scores, suspect=suspect)
