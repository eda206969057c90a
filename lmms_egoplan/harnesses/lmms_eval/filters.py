"""lmms-eval filters that know the document of each response.

The harness passes a filter this rank's responses and the whole dataset. With ``--limit``,
``--offset`` or several ranks, the filter cannot match responses with documents, and it never gets
token counts. `patches.show_requests_to_filters` therefore passes them the requests first.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lmms_eval.api.filter import Filter
from lmms_eval.api.instance import Instance
from lmms_eval.api.reasoning import parse_reasoning_tags_config, strip_reasoning_tags
from loguru import logger

from lmms_egoplan.generated_reply import GeneratedReply
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel, loaded_model
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.processes import num_processes

# Default of the harness's --reasoning_tags, for runs not started from its command line.
_REASONING_TAGS = '[["<think>", "</think>"], ["<analysis>", "</analysis>"]]'
# Settings to log.
_LOGGED_SETTINGS = ("media", "num_frames", "fps", "max_frames")


@dataclass(frozen=True, slots=True)
class Response:
    """One answer of the evaluated model.

    Attributes:
        doc_id: Index of its document in the dataset.
        text: The answer, without reasoning and surrounding white space.
        truncated: Whether the limit on new tokens ended the answer; None if the backend reports no
            token counts.
    """

    doc_id: int
    text: str
    truncated: bool | None


class RequestFilter(Filter):
    """A filter whose `apply` may call `responses`, `settings` and `model`.

    Responses are cleaned first, so the filter and the log can write them to files.
    """

    requests: Sequence[Instance] = ()

    def responses(self, resps: Sequence[Sequence[str]]) -> list[Response]:
        """Return each request's first response.

        The harness strips reasoning only after the filters, so this method does it, with the
        harness's tags.

        Raises:
            RuntimeError: The harness did not pass the requests.
        """
        task = self._task()
        configured = parse_reasoning_tags_config(
            cli_value=_REASONING_TAGS
            if task.args is None
            else getattr(task.args, "reasoning_tags", None),
            task_value=task.config.reasoning_tags,
        )
        return [
            Response(request.doc_id, strip_reasoning_tags(texts[0], configured or []), truncated)
            for request, texts, truncated in zip(
                self.requests, resps, self.truncated(), strict=True
            )
        ]

    def truncated(self) -> list[bool | None]:
        """Return for each request whether the limit on new tokens ended its answer.

        Warn if that is unknown.
        """
        flags = [_truncated(request) for request in self.requests]
        unknown = flags.count(None)
        if unknown:
            logger.warning(
                f"{self._task().task_name}: {unknown} of {len(flags)} answers have no token count; "
                "the fraction of truncated answers excludes them"
            )
        return flags

    def settings(self) -> Mapping[str, Any]:
        """Return the task's block of settings for the model."""
        return self._task().lmms_eval_specific_kwargs or {}

    def model(self) -> LoadedModel | None:
        """Return the evaluated model; None if its backend is not from this package."""
        return loaded_model(str(self._task().model_name))

    def asks_in_messages(self) -> bool:
        """Return whether the backend gets the task's chat messages.

        The harness's chat backends do.
        """
        return callable(self._task().config.doc_to_messages) and not any(
            inspect.ismethod(value) and value.__name__ == "doc_to_visual"
            for value in self.requests[0].args
        )

    def _task(self) -> Any:
        if not self.requests:
            raise RuntimeError(
                "this lmms-eval does not apply filters with FilterEnsemble.apply(instances, docs)"
            )
        return next(value.__self__ for value in self.requests[0].args if inspect.ismethod(value))


class JudgedFilter(RequestFilter):
    """A filter that sends answers to a judge model. The judge is tested when the task is loaded.

    Attributes:
        DEFAULT_JUDGE: As in `announce_judge`.
        OTHERWISE: As in `announce_judge`.
        PROBE_FORM: As in `announce_judge`.
        REQUESTS: Number of requests to the judge for an answer.
    """

    DEFAULT_JUDGE: ClassVar[str]
    OTHERWISE: ClassVar[str] = ""
    PROBE_FORM: ClassVar[Any] = None
    REQUESTS: int = 1

    def __init__(self) -> None:
        """Test the judge.

        Raises:
            JudgeError, LmmsEgoplanError: As in `announce_judge`.
        """
        announce_judge(self.DEFAULT_JUDGE, self.OTHERWISE, self.PROBE_FORM)

    def judge(self) -> JudgeSettings | None:
        """Return the configured judge, with this process's share of the concurrency.

        None with ``--predict_only``.
        """
        settings = judge_settings(self.DEFAULT_JUDGE)
        if settings is None or getattr(self._task().args, "predict_only", False):
            return None
        return settings.shared_by(num_processes())


class Unchanged(RequestFilter):
    """A filter that does not change replies, except to make them writable for the log."""

    def apply(self, resps: Sequence[Sequence[str]], _docs: Any) -> list[GeneratedReply]:
        """Return the first reply to each request.

        Also log the visual settings and the maximum length of a reply.
        """
        if self.requests:
            settings = ", ".join(
                f"{name}: {value}"
                for name, value in self.settings().items()
                if name in _LOGGED_SETTINGS
            )
            most = _most_tokens(self.requests[0])
            length = "" if most is None else f", up to {most:,} new tokens"
            logger.info(f"{self._task().task_name}: {settings}{length}")
        return [
            GeneratedReply(replies[0] if replies else "", truncated)
            for replies, truncated in zip(resps, self.truncated(), strict=True)
        ]


def _most_tokens(request: Instance) -> int | None:
    return next(
        (value.get("max_new_tokens") for value in request.args if isinstance(value, dict)), None
    )


def _truncated(request: Instance) -> bool | None:
    counts = request.token_counts[0] if request.token_counts else None
    limit = _most_tokens(request)
    if limit is None or counts is None or counts.output_tokens is None:
        return None
    return counts.output_tokens >= limit
