"""What a model proposes to do next, the most likely first: by beam search, or ranked from a list."""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.planner.grounding import ground
from lmms_egoplan.planner.planner import Proposal
from lmms_egoplan.ranking import CandidateRanker

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
