"""Filters that know the request of each answer."""

from types import SimpleNamespace

import pytest
from lmms_eval.api.instance import Instance, TokenCounts

from lmms_egoplan.harnesses.lmms_eval.filters import RequestFilter, Response


class Task:
    """Replaces a task of the harness, whose requests contain its methods."""

    task_name, args, config = "small", None, SimpleNamespace(reasoning_tags=None)

    def doc_to_visual(self, doc):
        return []

    def answered(self, output_tokens, limit):
        """Return a request with a limit on new tokens and an answer of this length."""
        return Instance(
            request_type="generate_until",
            arguments=(
                "What next?",
                {"max_new_tokens": limit},
                self.doc_to_visual,
                0,
                self.task_name,
                "test",
            ),
            idx=0,
            metadata={"task": self.task_name, "doc_id": 0, "repeats": 1},
            token_counts=[TokenCounts(output_tokens=output_tokens)],
        )


@pytest.mark.parametrize(("output_tokens", "truncated"), [(15, False), (16, True), (None, None)])
def test_an_answer_that_reaches_the_token_limit_is_truncated(output_tokens, truncated):
    request_filter = RequestFilter()
    request_filter.requests = [Task().answered(output_tokens, limit=16)]
    (response,) = request_filter.responses([["open tap"]])
    assert response == Response(0, "open tap", truncated)
