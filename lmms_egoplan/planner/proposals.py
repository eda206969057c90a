"""What a model proposes to do next, the most likely first: by beam search, or ranked from a list.

A free text means the nearest of the environment's actions (`ground`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel

from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.encoder import default_device, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.planner.planner import Proposal
from lmms_egoplan.ranking import CandidateRanker

# The project's own: below, a text is none of the actions.
LEAST_SIMILARITY = 0.6


def ground(texts: Sequence[str], actions: Sequence[str] | None) -> list[tuple[str | None, float | None]]:
    """Find the action of each text, and their similarity: the same words, or the nearest by sentence embeddings.

    Args:
        actions: None where every text is an action; then the text itself, without a similarity.

    Returns:
        None for a text that is like none of the actions; the similarity is that of the nearest.

    Raises:
        LmmsEgoplanError: the sentence encoder cannot be loaded.

    >>> ground(["Open the tap."], ["close the tap", "open tap"])
    [('open tap', 1.0)]
    """
    if actions is None:
        return [(text.strip() or None, None) for text in texts]
    known = {normalised(action): action for action in actions}
    alike: dict[str, tuple[str | None, float | None]] = {key: (action, 1.0) for key, action in known.items()}
    others = [text for text in texts if normalised(text) not in known]
    alike |= _nearest(others, actions) if others and actions else {}
    return [alike.get(normalised(text), (None, None)) for text in texts]


def _nearest(texts: Sequence[str], actions: Sequence[str]) -> dict[str, tuple[str | None, float | None]]:
    encoder = load_encoder()
    embedded, known = (encoder.encode(list(some), normalize_embeddings=True) for some in (texts, actions))
    nearest: dict[str, tuple[str | None, float | None]] = {}
    for text, similarities in zip(texts, (embedded @ known.T).tolist(), strict=True):
        similarity = max(similarities)
        action = actions[similarities.index(similarity)] if similarity >= LEAST_SIMILARITY else None
        nearest[normalised(text)] = (action, similarity)
    return nearest


GENERATE, RANK = "generate", "rank"
# Paper v1, Applications.
BEAMS = 5
# Words of an action; published ones of EgoPlan have at most 12 or so.
MAX_NEW_TOKENS = 32


class Proposer:
    """Proposals of one model.

    Args:
        model: a transformers vision-language model, in eval mode, on its device.
        beams: width of the beam search, and proposals a step; at least 1.
        method: ``generate``, which writes freely, or ``rank``, which ranks the environment's actions by their mean
            log-probability per token, all after one pass over the context.

    Raises:
        ValueError: a number below 1, or another method.
    """

    def __init__(self, model: PreTrainedModel, processor: Any, beams: int = BEAMS, method: str = GENERATE) -> None:
        if beams < 1:
            raise ValueError(f"beams must be at least 1, got {beams}")
        if method not in (GENERATE, RANK):
            raise ValueError(f"method must be {GENERATE} or {RANK}, got {method!r}")
        self._beams, self._method = beams, method
        self._generator = AnswerGenerator(model, processor)
        self._ranker = CandidateRanker(model, processor) if method == RANK else None
        self._media = MediaLoader(1, takes_video=self._generator.takes_video)

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, place: str
    ) -> list[Proposal]:
        """Return at most `beams` different proposals, the most likely first.

        Args:
            visuals: clips and images, in order.
            actions: of the environment; None where any text will do, which needs ``generate``.
            place: names the step in errors.

        Raises:
            ContextTooLongError: question and visuals exceed the model's positions.
            RankingError: an action cannot be ranked.
            LmmsEgoplanError: there are no actions to rank, or the sentence encoder that grounds free text cannot be
                loaded.
        """
        messages = self._media.messages(question, visuals)
        if self._ranker is not None:
            if actions is None:
                raise LmmsEgoplanError(f"{place}: the environment lists no actions to rank; take method {GENERATE}")
            if not actions:
                return []
            scores = self._ranker.score(messages, list(actions), place)
            ranked = sorted(zip(actions, scores, strict=True), key=lambda pair: pair[1].nll)[: self._beams]
            return [Proposal(action, score.logprob, score.num_tokens, action, 1.0) for action, score in ranked]
        written = self._generator.beams(messages, self._beams, MAX_NEW_TOKENS, place)
        grounded = ground([beam.text for beam in written], actions)
        return [
            Proposal(beam.text, beam.logprob, beam.num_tokens, *action)
            for beam, action in zip(written, grounded, strict=True)
        ]


def load_model(name: str, peft: Path | None) -> tuple[PreTrainedModel, Any]:
    """Load a checkpoint in its own precision, in eval mode, on this process's GPU or the CPU; and its processor.

    Args:
        peft: folder of an adapter for it.

    Raises:
        LmmsEgoplanError: there is no such checkpoint, transformers cannot load it, or the adapter is for another.
    """
    try:
        model = AutoModelForImageTextToText.from_pretrained(name, dtype="auto", device_map={"": default_device()})
        processor = AutoProcessor.from_pretrained(name)
    except Exception as error:  # a damaged checkpoint makes each of its libraries fail in its own way
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise LmmsEgoplanError(f"--model {name}: {problem}") from error
    return (load_adapter(model, peft) if peft else model.eval()), processor
