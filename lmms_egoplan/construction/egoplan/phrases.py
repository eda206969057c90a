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

# Maximum number of sentences per request. All are from one video, so requests do not depend on
# other videos.
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

    A sentence without a phrase becomes an unknown action.

    Args:
        sentences, unknown: As returned by `read_ego4d`.

    Raises:
        JudgeError: The language model fails.
    """
    requests: dict[str, tuple[str, list[str]]] = {}
    for uid, video_sentences in sentences.items():
        distinct = list(dict.fromkeys(sentence.text for sentence in video_sentences))
        for first in range(0, len(distinct), _SENTENCES_PER_REQUEST):
            texts = distinct[first : first + _SENTENCES_PER_REQUEST]
            requests[f"{uid}, sentences {first + 1} to {first + len(texts)}"] = (uid, texts)
    prompts = {name: PROMPT.format(lines=numbered(texts)) for name, (_, texts) in requests.items()}
    phrases: dict[tuple[str, str], str | Rejection] = {}
    replies = ask_json("phrase", prompts, settings, "verb-object phrases", kind=list)
    rejected = {rejection.where: rejection for rejection in replies.rejections}
    for name, reply in (replies.values | rejected).items():
        uid, texts = requests[name]
        # An estimate has no phrases. It continues with the sentences, which are slightly longer.
        results = texts if settings.options.is_estimate else _phrases(reply, texts)
        phrases |= {(uid, text): phrase for text, phrase in zip(texts, results, strict=True)}
    videos: list[Video] = []
    rejections: list[Rejection] = []
    for uid, video_sentences in sentences.items():
        actions: list[Action] = []
        unknown_times = list(unknown.get(uid, ()))
        for sentence in video_sentences:
            phrase = phrases[uid, sentence.text]
            if isinstance(phrase, str):
                actions.append(ego4d_action(sentence, phrase))
            else:
                unknown_times.append((round(100 * sentence.start), round(100 * sentence.stop)))
                rejections.append(replace(phrase, where=sentence.where))
        if actions:
            videos.append(Video(EGO4D, uid, EGO4D_FPS, by_start(actions), tuple(unknown_times)))
    return videos, rejections


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
