"""Ask the judge to grade answers (sec. 4.1)."""

from collections.abc import Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.egothink.answers import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.presets import chosen_judge_protocol
from lmms_egoplan.judging.judge import Judge, warn_of_missing_ratings
from lmms_egoplan.judging.judgement import (
    DEFAULT_PROTOCOL,
    Judgement,
    JudgeProtocol,
    JudgeRequest,
    Prompt,
)
from lmms_egoplan.judging.probe import PROBE
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import sanitize

# The paper's GPT-4 is retired.
DEFAULT_JUDGE = "gpt-4o-2024-11-20"

_JUDGE_LATER = "lmms-egoplan judge egothink SAMPLES --out FILE"
# Hint for runs without a judge.
OTHERWISE = f"You can judge EgoThink's logged samples later: {_JUDGE_LATER}"


def judge_prompt(answer: Answer, sanitized: str, protocol: JudgeProtocol) -> str:
    """Return the text of the request to rate an answer.

    Args:
        answer: The answer.
        sanitized: Replaces the answer if it must be safe.
        protocol: The judge's protocol.
    """
    return protocol.prompt.format(
        question=answer.question,
        ref_answer_1=protocol.normalise(answer.reference),
        answer=sanitized if protocol.sanitizes else answer.answer,
    )


def grade(
    answers: Sequence[Answer], settings: JudgeSettings | None, preset: str = ""
) -> list[JudgedAnswer]:
    """Judge all answers of a task, and return the judged answers in the same order.

    An answer that could not be judged has an error instead of a rating. If there is a judge, a
    warning lists these answers.

    Args:
        answers: Answers of a task.
        settings: The judge; None without a judge.
        preset: The preset of the task, whose protocol is the judge's default; "" for none.
    """
    return grade_repeatedly(answers, settings, 1, preset)[0]


def probe_form(settings: JudgeSettings, preset: str = "") -> tuple[JudgeSettings, Prompt]:
    """Return the settings and the form of prompts under the chosen protocol, for `probe`."""
    protocol = chosen_judge_protocol(settings.protocol, preset)
    settings = settings.under(protocol)
    # Under the default protocol, the form is that of other judges: one test serves all.
    is_default = protocol.name == DEFAULT_PROTOCOL
    return replace(settings, protocol="") if is_default else settings, replace(
        PROBE, system=protocol.system
    )


def grade_repeatedly(
    answers: Sequence[Answer], settings: JudgeSettings | None, repeats: int, preset: str = ""
) -> list[list[JudgedAnswer]]:
    """Judge the same answers several times, and return a list of judged answers for each repeat.

    The first list equals the result of `grade`. Each repeat has separate cache entries.
    """
    protocol = chosen_judge_protocol(settings.protocol if settings else "", preset)
    sanitized = [(answer, *sanitize(answer.answer)) for answer in answers]
    batch = [(*item, repeat) for repeat in range(repeats) for item in sanitized]
    judgements = [Judgement(None, None, "", error="no judge is set")] * len(batch)
    if settings is not None and answers:
        requests = [
            JudgeRequest(
                answer.id,
                judge_prompt(answer, text, protocol),
                answer.reference,
                text,
                repeat=repeat,
                system=protocol.system,
                protocol=protocol.name,
            )
            for answer, text, _, repeat in batch
        ]
        dimensions = {dimension_of(answer.id) for answer in answers}
        judge = Judge(
            "EgoThink",
            settings.under(protocol),
            f"The answers are saved. Judge the rest: {_JUDGE_LATER}",
        )
        judgements = judge.rate(
            requests, protocol.scale, dimensions.pop() if len(dimensions) == 1 else ""
        )
    judged = [
        JudgedAnswer(
            id=answer.id,
            answer=answer.answer,
            truncated=answer.truncated,
            suspect=suspect,
            rating=None if judgement.rating is None else float(judgement.rating),
            judgement=judgement.reply,
            judge=judgement.judge or None,
            error=judgement.error,
            prompts=answer.prompts,
            protocol=protocol.name if judgement.judge else None,
            judge_prompt_tokens=judgement.prompt_tokens,
            judge_reply_tokens=judgement.completion_tokens,
        )
        for (answer, _, suspect, _), judgement in zip(batch, judgements, strict=True)
    ]
    if settings is not None:  # otherwise, nobody expects ratings
        unjudged = [answer.id for answer in judged if answer.rating is None]
        effect = {}
        if protocol.failed is not None:
            effect["effect"] = f"the scores count each as {protocol.failed}"
        warn_of_missing_ratings("EgoThink", unjudged, len(judged), "answers", **effect)
    return [
        judged[repeat * len(answers) : (repeat + 1) * len(answers)] for repeat in range(repeats)
    ]
