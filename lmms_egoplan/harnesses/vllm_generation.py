"""Generate replies with vLLM in this process, many questions at a time.

The messages are those of `hf_vlm`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from loguru import logger

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import (
    Answer,
    Instance,
    Question,
    num_new_tokens,
    stop_strings,
)
from lmms_egoplan.harnesses.prefetch import prefetch_conditions
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import EngineQuestion
from lmms_egoplan.ranking.question import too_long

# These have no effect if their value is 0.
_SAMPLING_ARGUMENTS = ("temperature", "top_k", "top_p", "min_p")
_PASSED_ON = ("repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
_HANDLED = {
    "do_sample",
    "max_gen_toks",
    "max_new_tokens",
    "until",
    *_SAMPLING_ARGUMENTS,
    *_PASSED_ON,
}
# Greedy decoding.
_GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


class VLLMGenerator:
    """Generate replies, greedily unless sampling is requested.

    Each request has its own limit on new tokens.

    Args:
        name: The model's name in the harness.
        llm: The ``LLM``. Its defaults, from the checkpoint's generation config, replace arguments
            that a request lacks.
        engine: The `LocalEngine` of this ``LLM``.
        ranker: Converts messages to prompts.
        in_flight: Number of concurrent questions.
    """

    def __init__(
        self, name: str, llm: Any, engine: Any, ranker: EngineRanker, in_flight: int
    ) -> None:
        self._name = name
        self._llm = llm
        self._engine = engine
        self._ranker = ranker
        self._in_flight = in_flight
        self._unknown_arguments: set[str] = set()

    def answers(
        self,
        requests: Sequence[Instance],
        load: Callable[[Instance], Question],
        shown_of: Callable[[Instance], Any],
        defaults: Mapping[str, Any],
        workers: int,
    ) -> Generator[tuple[int, Answer], None, None]:
        """Yield each request's index and the answer to its question, as it ends.

        Questions are loaded while the engine generates, in the order of `group_by_media`. Of equal
        requests without sampling, only the first one is answered.

        Args:
            requests: Requests whose ``args[1]`` are generation arguments: those of
                `AnswerGenerator.answers` except ``num_beams``, and ``min_p``, ``presence_penalty``,
                ``frequency_penalty`` and ``seed``.
            load: Loads the question of a request. Must be thread-safe.
            shown_of: Returns the key of the question whose media a request shows.
            defaults: Generation arguments that a request may override.
            workers: Number of threads that load.

        Raises:
            ContextTooLongError: The engine's ``max_model_len`` leaves no room for a reply, or ends
                it before its limit.
            EngineError: The engine has died.
        """
        # ID, equal requests and limit of each question
        asked: list[tuple[str, list[int], int]] = []

        def arguments_of(index: int) -> dict[str, Any]:
            return {**defaults, **requests[index].args[1]}

        def load_at(index: int) -> tuple[Any, str]:
            messages, question_id = load(requests[index])
            arguments = arguments_of(index)
            return (messages, arguments, self._samples(arguments) and index), question_id

        def contexts() -> Iterator[tuple[EngineQuestion, Any]]:
            for question, equal in encoded:
                arguments = arguments_of(equal[0])
                asked.append((question.question_id, equal, num_new_tokens(arguments)))
                yield question, self._parameters(arguments)

        encoded = prefetch_conditions(
            range(len(requests)),
            lambda index: shown_of(requests[index]),
            load_at,
            lambda content, question_id: self._ranker.encode_context(content[0], question_id),
            workers,
        )
        outputs = self._engine.replies(contexts(), self._in_flight)
        with (
            closing(encoded),
            closing(outputs),
            progress_bar(len(requests), "Generating", "question") as bar,
        ):
            for position, output in outputs:
                question_id, equal, limit = asked[position]
                answer = self._answer(output, question_id, limit)
                for index in equal:
                    bar.update()
                    record.note(
                        requests[index],
                        tokens=answer.input_tokens,
                        reply_tokens=answer.output_tokens,
                    )
                    yield index, answer

    def _answer(self, output: Any, question_id: str, limit: int) -> Answer:
        (completion,) = output.outputs
        is_cut = completion.finish_reason == "length"
        length = len(output.prompt_token_ids)
        count = len(completion.token_ids)
        if is_cut and count < limit:
            most = (
                f"the engine's max_model_len is {self._engine.limit}: it ended the reply "
                f"after {count} tokens. Raise "
            )
            raise too_long(
                question_id, length, limit, f"{most}it, or lower the task's limit on new tokens"
            )
        # without the token that ends the reply
        return Answer(completion.text, length, count if is_cut else count - 1)

    def _samples(self, arguments: Mapping[str, Any]) -> bool:
        do_sample = arguments.get("do_sample", bool(arguments.get("temperature")))
        return bool(self._engine.samples if do_sample is None else do_sample)

    def _parameters(self, arguments: Mapping[str, Any]) -> Any:
        """Return vLLM's sampling parameters for generation arguments."""
        from vllm import SamplingParams

        unknown = {
            name
            for name in arguments
            if name not in _HANDLED and (name, arguments[name]) != ("num_beams", 1)
        }
        new = unknown - self._unknown_arguments
        if new:
            self._unknown_arguments |= new
            logger.warning(
                f"{self._name}: ignoring unsupported generation arguments: {', '.join(sorted(new))}"
            )
        defaults = self._llm.get_default_sampling_params()
        values = {name: getattr(defaults, name) for name in (*_SAMPLING_ARGUMENTS, *_PASSED_ON)}
        values |= {name: arguments[name] for name in _PASSED_ON if arguments.get(name) is not None}
        values |= {name: arguments[name] for name in _SAMPLING_ARGUMENTS if arguments.get(name)}
        values |= {} if self._samples(arguments) else _GREEDY
        return SamplingParams(
            max_tokens=num_new_tokens(arguments), stop=stop_strings(arguments), **values
        )
