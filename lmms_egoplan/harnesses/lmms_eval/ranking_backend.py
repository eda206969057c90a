"""Share code of this package's lmms-eval backends.

They compute likelihoods after images and clips, and stream responses.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from datasets import Dataset
from lmms_eval.api.instance import GenerationResult, Instance
from lmms_eval.api.model import lmms
from lmms_eval.protocol import ChatMessages

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.harnesses.rank import Ranker, RequestReader, rank
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.audits import PathLedger
from lmms_egoplan.ranking.encoding import Message, num_visuals
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.sharing import group_by_media, media_key


class StreamedResponses(Sequence):
    """A sequence of responses that are computed on demand, each with its index.

    lmms-eval writes each response to its ``--use_cache`` store before it requests the next one. An
    interrupted run therefore loses no finished response, since the requests come in the order in
    which they are computed (`RankingBackend.order`).
    """

    def __init__(self, responses: Generator[tuple[int, Any], None, None], count: int) -> None:
        self._responses = responses
        self._done: dict[int, Any] = {}
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        # The inherited method would treat an IndexError raised by the model as the end of the
        # responses.
        for index in range(self._count):
            yield self[index]

    def __getitem__(self, index: Any) -> Any:
        indices = range(self._count)[index]
        if isinstance(indices, range):
            return [self[position] for position in indices]
        while indices not in self._done:
            position, response = next(self._responses)
            self._done[position] = response
        if len(self._done) == self._count:
            self._responses.close()
        return self._done[indices]


class RankingBackend(lmms):
    """A backend that answers ``loglikelihood`` with a ranker.

    The harness's base classes do everything else.

    Attributes:
        loaded_model: What tasks may know about the checkpoint.
        cache_run: See `response_cache.cache_run`.
        _identity: Identifies the model and the version of the ranking.
        _ledger_identity: Also identifies the settings that affect the exactness of paths.
        _ordered: Kinds of requests that are computed question by question, over all tasks.
        _by_question: All requests about each question, also those whose responses are cached.
    """

    is_simple = True
    NAME: ClassVar[str]

    loaded_model: LoadedModel
    cache_run: str
    _ranker: Ranker
    _media: MediaLoader
    _workers: int
    _identity: str
    _ledger_identity: str
    _ledger: PathLedger | None = None
    _ordered: Collection[str] = ("loglikelihood",)
    _by_question: Mapping[tuple[Any, ...], Sequence[Instance]] = MappingProxyType({})

    def loglikelihood(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Return each continuation's mean token loss and greedy flag.

        As in lmms-eval, a lower loss is better.

        The requests of one question are ranked together. White space around a continuation is
        removed, since the chat template separates an answer from its question. Every response is a
        `LoglikelihoodText`. The harness's own ``multiple_choice`` scoring can unpack it, unless it
        comes from the response cache.

        Raises:
            LmmsEgoplanError: The media of a question cannot be loaded.
            RankingError: A question cannot be ranked, is too long for the model
                (`ContextTooLongError`), or failed an audit (`PathError`). After a failed audit,
                ``--use_cache`` no longer serves responses from that path.
        """
        return StreamedResponses(self._rank_all(requests), len(requests))

    def open_cache(self, folder: Path) -> str:
        """Return the identity that binds cached responses to this model.

        Exclude paths that failed in earlier runs.
        """
        self._ledger = PathLedger(folder, self._ledger_identity)
        return self._ledger.exclude_failed(self._identity, self._ranker.exclude)

    def order(self, kind: str, requests: Sequence[Instance]) -> list[int]:
        """Return the indices of requests of one kind in the order in which they are computed.

        The harness removes requests with cached responses later. `loglikelihood` still ranks each
        question whole.
        """
        if kind == "loglikelihood":
            groups = itertools.groupby(requests, key=_question_of)
            self._by_question = {question: [*group] for question, group in groups}
        shown_of = self._shown_of()
        indices = range(len(requests))
        blocks = (
            group_by_media(indices, lambda index: shown_of(requests[index]))
            if kind in self._ordered
            else [indices]
        )
        return [index for block in blocks for index in block]

    def _shown_of(self) -> Callable[[Instance], Any]:
        """Return a function from a request to the key of the question whose media it shows."""

        @functools.cache
        def rows(task: str, split: str) -> Any:
            docs = self.task_dict[task][split]
            if not isinstance(docs, Dataset):
                return docs
            # no images
            names = [name for name in ("sample_id", "partner") if name in docs.column_names]
            return docs.select_columns(names).to_list() if names else [{}] * len(docs)

        return lambda request: media_key(
            rows(*request.args[4:6])[request.args[3]], request.args[3:6]
        )

    def _task_messages(self, request: Instance, doc: Any) -> list[Message] | None:
        """Return the task's messages for chat backends if they have a system message; else None.

        Only for generation. A request's text has no turns, so it cannot separate a system prompt
        from the question.
        """
        task = getattr(request.args[2], "__self__", None)
        to_messages = getattr(getattr(task, "config", None), "doc_to_messages", None)
        if request.request_type != "generate_until" or task is None or not callable(to_messages):
            return None
        settings = task.lmms_eval_specific_kwargs
        parameters = inspect.signature(to_messages).parameters
        # The harness passes the settings under this name, but some tasks name their second
        # parameter differently.
        has_name = "lmms_eval_specific_kwargs" in parameters or any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
        )
        if settings is not None and has_name:
            task_messages = to_messages(doc, lmms_eval_specific_kwargs=settings)
        elif settings is not None and len(parameters) == 2:
            task_messages = to_messages(doc, settings)
        else:
            task_messages = to_messages(doc)
        if not any(
            isinstance(message, dict) and message.get("role") == "system"
            for message in task_messages or ()
        ):
            return None
        messages = ChatMessages(messages=task_messages).to_hf_messages()
        for message in messages:
            message["content"] = [
                loaded
                for item in message["content"]
                for loaded in (
                    [item] if item["type"] == "text" else self._media.items(item[item["type"]])
                )
            ]
        return messages

    def _rank_all(
        self, requests: list[Instance]
    ) -> Generator[tuple[int, GenerationResult], None, None]:
        reader = RequestReader(
            load=self._load,
            question_of=_question_of,
            shown_of=self._shown_of(),
            candidate_of=functools.partial(_continuation, task_dict=self.task_dict),
            whole_of=lambda request: self._by_question.get(_question_of(request), ()),
        )
        ranked = rank(requests, self._ranker, reader, workers=self._workers, ledger=self._ledger)
        with closing(ranked):
            for index, score in ranked:
                likelihood = Loglikelihood(
                    score.nll, score.num_tokens, score.is_greedy, use=score.use
                )
                yield index, GenerationResult(LoglikelihoodText.from_score(likelihood))

    def _load(self, request: Instance) -> Question:
        """Return the chat messages of a request's question, and its ID. Thread-safe."""
        context, _, doc_to_visual, *_ = request.args
        doc, question_id = _document(request, self.task_dict)
        try:
            messages = self._task_messages(request, doc)
            if not messages:
                visuals = doc_to_visual(doc) if doc_to_visual else None
                messages = self._media.messages(context, visuals or [])
        except (OSError, ValueError) as error:
            raise _media_error(question_id, error) from error
        record.note(request, images=num_visuals(messages))
        return messages, question_id


def _question_of(request: Instance) -> tuple[Any, ...]:
    """Return a key that is equal for consecutive requests about the same question."""
    context, _, _, doc_id, task, split = request.args
    return task, split, doc_id, context


def _document(request: Instance, task_dict: Mapping[str, Any]) -> tuple[Any, str]:
    """Return a request's document, and its question's ID for error messages."""
    _, _, _, doc_id, task, split = request.args
    doc = task_dict[task][split][doc_id]
    question_id = f"{task}/{doc_id}"
    if isinstance(doc, dict) and "sample_id" in doc:
        question_id += f" (sample_id {doc['sample_id']})"
    return doc, question_id


def _media_error(question_id: str, error: Exception) -> LmmsEgoplanError:
    """Return an error for a question whose media cannot be read. It names the record only once."""
    question, _, record = question_id.removesuffix(")").partition(" (")
    is_named = record and f"{error}".startswith(f"{record}: ")
    return LmmsEgoplanError(f"question {question if is_named else question_id}: {error}")


def _continuation(request: Instance, task_dict: Mapping[str, Any]) -> str:
    """Return the continuation, which is a function of the document in ``loglikelihood`` tasks."""
    text = request.args[1]
    if callable(text):
        text = text(_document(request, task_dict)[0])
    return text.strip()
