"""``--model scripted``: return replies from a file for the demo.

No model wrote them, so scores are meaningless.
"""

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.arguments import read_arguments
from lmms_egoplan.harnesses.lmms_eval.arguments import ScriptedArguments
from lmms_egoplan.harnesses.weights import WeightsSource
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText

# Mean losses, in nats, of the continuation that equals the reply, and of all others.
_CHOSEN = 0.5
_OTHER = 2.0
_REPLIES = "replies.json"
_IDS = ("id", "sample_id", "step_id")


class Scripted(lmms):
    """A backend that looks up every reply.

    Args:
        pretrained: Folder with ``replies.json``, which lists replies by task and by the question's
            ID.
        arguments: See `ScriptedArguments`.
    """

    is_simple = True

    def __init__(self, pretrained: str, **arguments: Any) -> None:
        read_arguments(ScriptedArguments, "scripted", arguments)
        super().__init__()
        self._replies = json.loads(Path(pretrained, _REPLIES).read_text(encoding="utf-8"))
        self.weights_source = WeightsSource(pretrained, files=(_REPLIES,))

    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """Return the replies. Each word counts as a token."""
        replies = map(self._reply, requests)
        return [
            GenerationResult(reply, TokenCounts(len(request.args[0].split()), len(reply.split())))
            for request, reply in zip(requests, replies, strict=True)
        ]

    def loglikelihood(self, requests: list[Instance]) -> list[GenerationResult]:
        """Prefer the continuation that equals the reply."""
        results = []
        for request in requests:
            is_reply = request.args[1].strip() == self._reply(request)
            score = Loglikelihood(
                _CHOSEN if is_reply else _OTHER, len(request.args[1].split()), is_reply
            )
            results.append(GenerationResult(LoglikelihoodText.from_score(score)))
        return results

    def generate_until_multi_round(self, _requests: list[Instance]) -> list[str]:
        """Raise: each question has only one reply."""
        raise NotImplementedError("scripted: each question has only one reply")

    def _reply(self, request: Instance) -> str:
        *_, doc_id, task, split = request.args
        doc = self.task_dict[task][split][doc_id]
        question = next((str(doc[name]) for name in _IDS if name in doc), "")
        reply = self._replies.get(task, {}).get(question)
        if reply is None:
            raise LmmsEgoplanError(
                f"scripted: {task} {question} has no reply; only the demo's questions have one"
            )
        return reply
