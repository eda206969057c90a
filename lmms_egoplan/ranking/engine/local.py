"""Run vLLM in this process, or in the processes and nodes that it starts."""

import re
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.engine.exceptions import EngineDeadError

from lmms_egoplan.ranking.engine.requests import (
    ARGUMENT,
    EngineError,
    EngineQuestion,
    EngineRequest,
    EngineResponse,
    check_room,
    token_question,
)
from lmms_egoplan.ranking.question import RankingError

_TOO_LONG = re.compile(r"length (?:of )?(\d+).*max(?:imum)?.model.len", re.IGNORECASE | re.DOTALL)


class LocalEngine:
    """An ``LLM`` built with `ranking_arguments`.

    Attributes:
        samples: Whether the checkpoint's generation config asks for sampling.

    Raises:
        RankingError: The ``LLM`` does not return raw log-probabilities.
    """

    forces = True
    how_to_force = ""
    description = ""
    to_question = staticmethod(token_question)

    def __init__(self, llm: Any) -> None:
        self._engine = llm.llm_engine
        config = llm.model_config if hasattr(llm, "model_config") else self._engine.model_config
        if config.logprobs_mode != "raw_logprobs":
            raise RankingError(
                f"logprobs_mode={config.logprobs_mode}: ranking needs raw_logprobs; "
                "remove logprobs_mode"
            )
        self.limit = config.max_model_len
        self.dtype = str(config.dtype)
        self.is_float32 = config.dtype == torch.float32
        self.samples = bool(config.try_get_generation_config().get("do_sample"))
        self._pending: dict[str, tuple[str, int]] = {}
        _watch_engine(self._engine.engine_core)

    def submit(self, name: str, question: EngineQuestion, request: EngineRequest) -> None:
        """See `Engine`."""
        # 0 log-probabilities: only those of the tokens themselves.
        if request.takes_prompt_logprobs:
            # vLLM generates at least one token.
            params = SamplingParams(
                temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False
            )
        else:
            params = SamplingParams(
                temperature=0.0,
                max_tokens=len(request.forced),
                logprobs=0,
                ignore_eos=True,
                detokenize=False,
                extra_args={ARGUMENT: request.forced},
            )
        self._add(name, question, request.prompt, params)
        num_tokens = 0
        if request.candidate is not None:
            num_tokens = len(question.candidates[request.candidate].tokens)
        self._pending[name] = question.question_id, num_tokens

    def poll(self) -> list[tuple[str, EngineResponse | RankingError]]:
        """See `Engine`."""
        return [
            (output.request_id, _response(output, output.outputs[0], length))
            for output, length in self._finished()
        ]

    def replies(
        self, contexts: Iterable[tuple[EngineQuestion, SamplingParams]], in_flight: int
    ) -> Generator[tuple[int, Any], None, None]:
        """Generate a reply to each context.

        Args:
            contexts: Questions without candidates, whose prefixes end where the reply begins, and
                how to sample.
            in_flight: Maximum number of concurrent contexts.

        Yields:
            The index of each context, as its reply ends, and vLLM's ``RequestOutput``.

        Raises:
            ContextTooLongError: A context leaves no room for a reply.
            EngineError: The engine has died, or ends a reply early.
        """
        source = enumerate(contexts)
        try:
            while True:
                for index, (question, params) in islice(source, in_flight - len(self._pending)):
                    check_room(question, len(question.prefix), self.limit)
                    self._add(str(index), question, question.prefix, params)
                    self._pending[str(index)] = question.question_id, 0
                if not self._pending:
                    return
                for output, _ in self._finished():
                    yield int(output.request_id), output
        finally:
            self.abort(list(self._pending))

    def _add(
        self, name: str, question: EngineQuestion, tokens: list[int], params: SamplingParams
    ) -> None:
        """Start a request that continues the question's prefix; raise as in `Engine.submit`."""
        prompt: dict[str, Any] = {"prompt_token_ids": tokens}
        if question.media:
            prompt["multi_modal_data"] = question.media
        try:
            with _engine_errors():
                self._engine.add_request(name, prompt, params)  # the response carries this name
        except EngineError:
            raise
        except ValueError as error:
            match = _TOO_LONG.search(str(error))
            if match:
                extra = len(tokens) - len(question.prefix)
                check_room(question, int(match[1]) - extra, self.limit)
            raise RankingError(
                f"question {question.question_id}: vLLM rejects it: {error}"
            ) from error

    def _finished(self) -> list[tuple[Any, int]]:
        """Wait for at least one request to end.

        Return vLLM's outputs, each with the length of its candidate.
        """
        finished: list[tuple[Any, int]] = []
        while not finished:
            with _engine_errors():
                outputs = self._engine.step()
            for output in outputs:
                if not output.finished or output.request_id not in self._pending:
                    continue
                question_id, length = self._pending.pop(output.request_id)
                (completion,) = output.outputs
                if completion.finish_reason not in ("length", "stop"):
                    raise EngineError(
                        f"question {question_id}: vLLM ended it early: {completion.finish_reason}"
                    )
                finished.append((output, length))
        return finished

    def abort(self, names: Sequence[str]) -> None:
        """See `Engine`."""
        with suppress(EngineDeadError):
            self._engine.abort_request([name for name in names if name in self._pending])
        self._pending.clear()


def _watch_engine(client: Any) -> None:
    """Raise an error in the waiting thread if the engine's process is killed.

    vLLM 0.32 would wait forever.
    """
    resources: Any = getattr(client, "resources", None)
    outputs = getattr(client, "outputs_queue", None)
    if not hasattr(resources, "engine_dead") or outputs is None:
        return

    def watch() -> None:
        while not resources.engine_dead:
            time.sleep(1)
        outputs.put(EngineDeadError())

    threading.Thread(target=watch, daemon=True, name="vllm engine watch").start()


@contextmanager
def _engine_errors() -> Iterator[None]:
    try:
        yield
    except EngineDeadError as error:
        raise EngineError(
            "vLLM's engine has died; see its log for the reason. Repeat the command: "
            "--use_cache keeps earlier scores"
        ) from error


def _response(output: Any, completion: Any, length: int) -> EngineResponse:
    prompt = output.prompt_token_ids
    tokens = list(completion.token_ids)
    rows = completion.logprobs or []
    if output.prompt_logprobs:
        tokens = list(prompt[-length:])
        rows = output.prompt_logprobs[-length:]
    logprobs = [
        (row[token].logprob, row[token].rank) for token, row in zip(tokens, rows, strict=False)
    ]
    return EngineResponse(len(prompt), tokens, logprobs)
