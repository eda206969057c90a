"""Define an answer to a question, and the answer with its judgement (sec. 4.1)."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Predicate
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS, SCALE
from lmms_egoplan.judging.judgement import (
    DEFAULT_PROTOCOL,
)
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to a question.

    Attributes:
        id: Id of the question, such as ``existence/1``.
        question: Text of the question.
        reference: The annotators' answer.
        answer: The model's answer.
        truncated: True if the limit on new tokens ended the answer; None if unknown.
        prompts: Family of the prompts (`prompts_name`); None if unknown.
    """

    id: str
    question: str
    reference: str
    answer: str
    truncated: bool | None
    prompts: str | None = None


@dataclass(frozen=True)
class JudgedAnswer(TextRecord):
    """An answer with its judgement.

    Attributes:
        id: See `Answer`.
        answer: See `Answer`.
        truncated: See `Answer`.
        suspect: True if the answer looks as if it contains its own rating. The judge saw it altered
            by `sanitize` if the protocol does so.
        rating: 0, 0.5 or 1, under a published protocol any number from 0 to 1; None without a
            rating.
        judgement: Raw text of the judge's last reply; None without a reply.
        judge: Model name from the endpoint, with what differs from the defaults; None without a
            judge.
        error: Why there is no rating; None with a rating.
        prompts: See `Answer`.
        protocol: Name in `PROTOCOLS`; None without a judge, and in records of earlier versions,
            which used ``paper``.
        judge_prompt_tokens: Prompt tokens of the requests for this judgement, including repeats
            after a reply without a rating, as the endpoint counted them, also if the reply is
            cached; None if unknown.
        judge_reply_tokens: Tokens of their replies; None if unknown.
    """

    WHAT = "a judged answer, as returned by `grade`"

    id: AnyText
    answer: AnyText
    truncated: StrictBool | None
    suspect: StrictBool
    rating: (
        Annotated[
            StrictFloat, Field(ge=0, le=SCALE.best), Expected(f"a number from 0 to {SCALE.best}")
        ]
        | None
    )
    judgement: AnyText | None
    judge: AnyText | None
    error: AnyText | None
    prompts: AnyText | None = None
    protocol: (
        Annotated[str, Predicate(PROTOCOLS.__contains__), Expected("the name of a protocol")] | None
    ) = None
    judge_prompt_tokens: StrictInt | None = None
    judge_reply_tokens: StrictInt | None = None

    @property
    def score(self) -> float | None:
        """100 times the rating, or times the value of a failed judgement.

        None if the answer leaves the mean.
        """
        if self.rating is not None:
            return 100 * self.rating
        if self.judge is None:
            return None
        failed = PROTOCOLS[self.protocol or DEFAULT_PROTOCOL].failed
        return None if failed is None else 100 * failed
