"""Rewrite Ego4D's sentences as verb-object phrases, as in EPIC-KITCHENS (sec. 3.1).

A language model does this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EGO4D_FPS
from lmms_egoplan.construction.ego4d import text_problem
from lmms_egoplan.construction.egoplan.narrations import (
    Action,
    Sentence,
    Video,
    by_start,
    ego4d_action,
)
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import numbered
from lmms_egoplan.validation import quoted

# Maximum number of distinct sentences per request.
_SENTENCES_PER_REQUEST = 50
# A brief phrase has at most this many words.
_MOST_WORDS = 12
PROMPT: str = module_yaml(__file__)["prompt"]

NO_PHRASES = "reply that is not a list of one phrase per sentence"
BAD_PHRASE = "reply that is not a brief phrase"


def to_phrases(
    sentences: Mapping[str, Sequence[Sentence]],
    unknown: Mapping[str, Sequence[tuple[int, int]]],
    settings: JudgeSettings,
) -> tuple[list[Video], list[Rejection]]:
    """Build videos whose actions are phrases.

    Each distinct sentence is asked for once, and has one phrase in all videos. Requests contain the
    sentences in order of first occurrence. If videos are added at the end, all requests except the
    last one stay the same, and their replies are cached.

    A sentence without a phrase becomes an unknown action wherever it occurs.

    Args:
        sentences, unknown: As returned by `read_ego4d`.

    Raises:
        JudgeError: The language model fails.
    """
    phrases = _phrases_by_text(sentences, settings)
    videos: list[Video] = []
    rejections: list[Rejection] = []
    for uid, video_sentences in sentences.items():
        actions: list[Action] = []
        unknown_times = list(unknown.get(uid, ()))
        for sentence in video_sentences:
            phrase = phrases[sentence.text]
            if isinstance(phrase, str):
                actions.append(ego4d_action(sentence, phrase))
            else:
                unknown_times.append((round(100 * sentence.start), round(100 * sentence.stop)))
                rejections.append(replace(phrase, where=sentence.where))
        if actions:
            videos.append(Video(EGO4D, uid, EGO4D_FPS, by_start(actions), tuple(unknown_times)))
    return videos, rejections


def _phrases_by_text(
    sentences: Mapping[str, Sequence[Sentence]], settings: JudgeSettings
) -> dict[str, str | Rejection]:
    """Ask for the phrase of each distinct sentence; return it, or the reason why there is none."""
    distinct: dict[str, None] = {}
    for video_sentences in sentences.values():
        distinct |= dict.fromkeys(sentence.text for sentence in video_sentences)
    requests = _requests([*distinct])
    prompts = {name: PROMPT.format(lines=numbered(texts)) for name, texts in requests.items()}
    replies = ask_json("phrase", prompts, settings, "verb-object phrases", kind=list)
    rejected = {rejection.where: rejection for rejection in replies.rejections}
    phrases: dict[str, str | Rejection] = {}
    for name, reply in (replies.values | rejected).items():
        texts = requests[name]
        # An estimate has no phrases. It continues with the sentences, which are slightly longer.
        results = texts if settings.options.is_estimate else _phrases(reply, texts)
        phrases.update(zip(texts, results, strict=True))
    return phrases


def _requests(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    """Divide sentences among requests; return the sentences of each request by its name."""
    requests = {}
    for first in range(0, len(texts), _SENTENCES_PER_REQUEST):
        part = texts[first : first + _SENTENCES_PER_REQUEST]
        requests[f"distinct sentences {first + 1} to {first + len(part)}"] = part
    return requests


def _phrases(reply: Any, sentences: Sequence[str]) -> list[str | Rejection]:
    """Return a phrase for each sentence, or the reason why there is none."""
    if isinstance(reply, Rejection):
        return [reply] * len(sentences)
    if len(reply) != len(sentences):
        return [Rejection("phrase", NO_PHRASES, "", quoted(reply))] * len(sentences)
    return [
        phrase
        if _is_brief(phrase)
        else Rejection("phrase", BAD_PHRASE, "", f"{quoted(phrase)} for {quoted(sentence)}")
        for phrase, sentence in zip(reply, sentences, strict=True)
    ]


def _is_brief(phrase: Any) -> bool:
    return (
        not any(text_problem("phrase", phrase))
        and "#" not in phrase
        and len(phrase.split()) <= _MOST_WORDS
    )
