"""``--model scripted``: replies out of a file, for the demo. They are no model's: the scores are meaningless."""

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText

# Mean losses of the continuation that is the reply, and of others, nats.
_CHOSEN, _OTHER = 0.5, 2.0
_IDS = ("id", "sample_id", "step_id")


class Scripted(lmms):
    """A backend that looks every reply up.

    Args:
        pretrained: folder with ``replies.json``: by task and by the question's id.
        _arguments: what the harness gives to every model, such as a batch size; ignored.
    """

    is_simple = True

    def __init__(self, pretrained: str, **_arguments: Any) -> None:
        super().__init__()
        self._replies = json.loads(Path(pretrained, "replies.json").read_text(encoding="utf-8"))

    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """Return the replies; their words count as tokens."""
        replies = map(self._reply, requests)
        return [
            GenerationResult(reply, TokenCounts(len(request.args[0].split()), len(reply.split())))
            for request, reply in zip(requests, replies, strict=True)
        ]

    def loglikelihood(self, requests: list[Instance]) -> list[GenerationResult]:
        """Prefer the continuation that is the reply."""
        results = []
        for request in requests:
            is_reply = request.args[1].strip() == self._reply(request)
            score = Loglikelihood(_CHOSEN if is_reply else _OTHER, len(request.args[1].split()), is_reply)
            results.append(GenerationResult(LoglikelihoodText.of(score)))
        return results

    def generate_until_multi_round(self, _requests: list[Instance]) -> list[str]:
        """Refuse: there is one reply to a question."""
        raise NotImplementedError("scripted: one reply to a question")

    def _reply(self, request: Instance) -> str:
        *_, doc_id, task, split = request.args
        doc = self.task_dict[task][split][doc_id]
        question = next((str(doc[name]) for name in _IDS if name in doc), "")
        reply = self._replies.get(task, {}).get(question)
        if reply is None:
            raise LmmsEgoplanError(f"scripted: no reply to {task} {question}; only the demo's questions have one")
        return reply
