"""Ego4D's sentences made into verb-object phrases by a language model, as EPIC-KITCHENS has them (sec. 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D
from lmms_egoplan.benchmarks.egoplan.sources import EGO4D_FPS
from lmms_egoplan.construction.ego4d import is_latin
from lmms_egoplan.construction.egoplan.narrations import Action, Sentence, Video, by_start, ego4d_action
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, shown

# Sentences in a request; they are one video's, so that other videos of a file change no request.
_AT_ONCE = 50
# More words are no brief phrase.
_MOST_WORDS = 12
PROMPT: str = yaml_beside(__file__)["prompt"]

NO_PHRASES = "reply that is no list of one phrase for each sentence"
BAD_PHRASE = "reply with something else than a brief phrase"


def to_phrases(
    sentences: Mapping[str, Sequence[Sentence]],
    unknown: Mapping[str, Sequence[tuple[int, int]]],
    settings: JudgeSettings,
) -> tuple[list[Video], list[Rejection]]:
    """Make videos whose actions are phrases; a sentence without a phrase becomes an unknown action.

    Args:
        sentences, unknown: as `read_ego4d` gives them.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    requests: dict[str, tuple[str, list[str]]] = {}
    for uid, spoken in sentences.items():
        distinct = list(dict.fromkeys(sentence.text for sentence in spoken))
        for first in range(0, len(distinct), _AT_ONCE):
            texts = distinct[first : first + _AT_ONCE]
            requests[f"{uid}, sentences {first + 1} to {first + len(texts)}"] = (uid, texts)
    prompts = {name: phrase_prompt(texts) for name, (_, texts) in requests.items()}
    phrases: dict[tuple[str, str], str | Rejection] = {}
    replies, rejected = ask_json("phrase", prompts, settings, "verb-object phrases", kind=list)
    for name, reply in (replies | {rejection.where: rejection for rejection in rejected}).items():
        uid, texts = requests[name]
        # An estimate of the next step counts sentences, which are somewhat longer.
        made = texts if settings.asking.is_estimate else _phrases(reply, texts)
        phrases |= {(uid, text): phrase for text, phrase in zip(texts, made, strict=True)}
    videos: list[Video] = []
    rejections: list[Rejection] = []
    for uid, spoken in sentences.items():
        actions: list[Action] = []
        lost = list(unknown.get(uid, ()))
        for sentence in spoken:
            phrase = phrases[uid, sentence.text]
            if isinstance(phrase, str):
                actions.append(ego4d_action(sentence, phrase))
            else:
                lost.append((round(100 * sentence.start), round(100 * sentence.stop)))
                rejections.append(replace(phrase, where=sentence.where))
        if actions:
            videos.append(Video(EGO4D, uid, EGO4D_FPS, by_start(actions), tuple(lost)))
    return videos, rejections


def phrase_prompt(sentences: Sequence[str]) -> str:
    """Return what a language model is asked about some sentences."""
    return PROMPT.format(lines="\n".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)))


def _phrases(reply: Any, sentences: Sequence[str]) -> list[str | Rejection]:
    """Return a phrase for each sentence, or why there is none."""
    if isinstance(reply, Rejection):
        return [reply] * len(sentences)
    if len(reply) != len(sentences):
        return [Rejection("phrase", NO_PHRASES, "", shown(reply))] * len(sentences)
    return [
        phrase if _is_brief(phrase) else Rejection("phrase", BAD_PHRASE, "", f"{shown(phrase)} for {shown(sentence)}")
        for phrase, sentence in zip(reply, sentences, strict=True)
    ]


def _is_brief(phrase: Any) -> bool:
    return (
        is_text(phrase)
        and any(map(str.isalpha, phrase))
        and is_latin(phrase)
        and "#" not in phrase
        and len(phrase.split()) <= _MOST_WORDS
    )
