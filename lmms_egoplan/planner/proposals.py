"""Propose the next actions with a model, most likely first: by beam search, or ranked from a list.

`ground` maps a free text to the nearest of the environment's actions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel

from lmms_egoplan.benchmarks.egoplan.wording import normalised
from lmms_egoplan.encoder import default_device, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.planner.planner import Method, Proposal
from lmms_egoplan.ranking import CandidateRanker

# This project's threshold. A text with a lower similarity matches no action.
LEAST_SIMILARITY = 0.6


def ground(
    texts: Sequence[str], actions: Sequence[str] | None
) -> list[tuple[str | None, float | None]]:
    """Find the action that matches each text, by the same words or the nearest sentence embedding.

    Args:
        texts: The model's texts.
        actions: The environment's actions. None if any text is an action: the result is the text
            without a similarity.

    Returns:
        Action and similarity of each text. If no action is similar enough, the action is None, and
        the similarity is that of the nearest one.

    Raises:
        LmmsEgoplanError: The sentence encoder cannot be loaded.

    >>> ground(["Open the tap."], ["close the tap", "open tap"])
    [('open tap', 1.0)]
    """
    if actions is None:
        return [(text.strip() or None, None) for text in texts]
    by_words = {normalised(action): action for action in actions}
    matches: dict[str, tuple[str | None, float | None]] = {
        key: (action, 1.0) for key, action in by_words.items()
    }
    new_texts = [text for text in texts if normalised(text) not in by_words]
    matches |= _nearest(new_texts, actions) if new_texts and actions else {}
    return [matches.get(normalised(text), (None, None)) for text in texts]


def _nearest(
    texts: Sequence[str], actions: Sequence[str]
) -> dict[str, tuple[str | None, float | None]]:
    encoder = load_encoder()
    text_vectors = encoder.encode(list(texts), normalize_embeddings=True)
    action_vectors = encoder.encode(list(actions), normalize_embeddings=True)
    nearest: dict[str, tuple[str | None, float | None]] = {}
    for text, similarities in zip(texts, (text_vectors @ action_vectors.T).tolist(), strict=True):
        similarity = max(similarities)
        action = actions[similarities.index(similarity)] if similarity >= LEAST_SIMILARITY else None
        nearest[normalised(text)] = (action, similarity)
    return nearest


# Paper v1, Applications.
BEAMS = 5
# Enough tokens for an action. EgoPlan's published actions have up to about 12 words.
MAX_NEW_TOKENS = 32


class Proposer:
    """Proposes actions with one model.

    Args:
        model: A transformers vision-language model, in eval mode, on its device.
        processor: The model's processor.
        beams: Beam width, and number of proposals per step; at least 1.
        method: ``generate`` writes freely. ``rank`` ranks the environment's actions by their mean
            log-probability per token, all after one pass over the context.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Any,
        beams: int = BEAMS,
        method: Method = "generate",
    ) -> None:
        self._beams = beams
        self._generator = AnswerGenerator(model, processor)
        self._ranker = CandidateRanker(model, processor) if method == "rank" else None
        self._media = MediaLoader(1, takes_video=self._generator.takes_video)

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, step_name: str
    ) -> list[Proposal]:
        """Return at most `beams` different proposals, most likely first.

        Args:
            question: The question.
            visuals: Clips and images, in order.
            actions: The environment's actions; None if any text is allowed, which needs
                ``generate``.
            step_name: Name of the step, for errors.

        Raises:
            ContextTooLongError: Question and visuals exceed the model's positions.
            RankingError: An action cannot be ranked.
            LmmsEgoplanError: There are no actions to rank, or the sentence encoder for free text
                cannot be loaded.
        """
        messages = self._media.messages(question, visuals)
        if self._ranker is not None:
            if actions is None:
                raise LmmsEgoplanError(
                    f"{step_name}: the environment lists no actions to rank; use method generate"
                )
            if not actions:
                return []
            scores = self._ranker.score(messages, list(actions), step_name)
            ranked = sorted(zip(actions, scores, strict=True), key=lambda pair: pair[1].nll)
            return [
                Proposal(action, score.logprob, score.num_tokens, action, 1.0)
                for action, score in ranked[: self._beams]
            ]
        beams = self._generator.beams(messages, self._beams, MAX_NEW_TOKENS, step_name)
        grounded = ground([beam.text for beam in beams], actions)
        return [
            Proposal(beam.text, beam.logprob, beam.num_tokens, *action)
            for beam, action in zip(beams, grounded, strict=True)
        ]


def load_model(name: str, peft: Path | None) -> tuple[PreTrainedModel, Any]:
    """Load a checkpoint in its own precision and eval mode, and its processor.

    The device is this process's GPU or CPU.

    Args:
        name: Name or folder of the checkpoint.
        peft: Folder of an adapter for the checkpoint.

    Raises:
        LmmsEgoplanError: The checkpoint does not exist, transformers cannot load it, or the adapter
            does not match it.
    """
    try:
        model = AutoModelForImageTextToText.from_pretrained(
            name, dtype="auto", device_map={"": default_device()}
        )
        processor = AutoProcessor.from_pretrained(name)
    except Exception as error:  # Each library fails in its own way on a damaged checkpoint.
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise LmmsEgoplanError(f"--model {name}: {problem}") from error
    return (load_adapter(model, peft) if peft else model.eval()), processor
