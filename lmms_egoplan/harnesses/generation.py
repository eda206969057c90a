"""Generate text in batches with a transformers vision-language model."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any, Protocol

import torch
from loguru import logger
from transformers import PreTrainedModel

from lmms_egoplan.harnesses.prefetch import Batching, num_bytes, prefetch, prefetch_conditions
from lmms_egoplan.memory_ahead import PEAK
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.decoder import keep_fractions, text_model
from lmms_egoplan.ranking.encoder_decoder import encoder_decoder_of
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder, takes_token_types
from lmms_egoplan.ranking.question import check_length, on_device, ready
from lmms_egoplan.ranking.thread_copies import ThreadCopies

DEFAULT_NEW_TOKENS = 1024
_SAMPLING_ARGUMENTS = ("temperature", "top_k", "top_p")
_PASSED_ON = ("num_beams", "repetition_penalty")
_HANDLED = {
    "do_sample",
    "max_gen_toks",
    "max_new_tokens",
    "until",
    *_SAMPLING_ARGUMENTS,
    *_PASSED_ON,
}


class Instance(Protocol):
    """A request of a harness."""

    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A generated answer.

    Attributes:
        text: The text, cut at the first stop string.
        input_tokens: Number of input tokens.
        output_tokens: Number of generated tokens, without the end of text. It equals the limit on
            new tokens only if the limit ended the answer.
    """

    text: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Beam:
    """One answer of a beam search.

    Its text, the sum of its log-probabilities in nats, and its number of tokens.
    """

    text: str
    logprob: float
    num_tokens: int


# Chat messages, and the question's ID for error messages.
Question = tuple[list[Message], str]


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Questions that are answered in one ``generate`` call.

    Attributes:
        inputs: Inputs from `ready`, padded on the left.
        arguments: Generation arguments.
        question_ids: ID of each question for error messages.
        has_video: Whether each question shows a video.
    """

    inputs: dict[str, Any]
    arguments: Mapping[str, Any]
    question_ids: Sequence[str]
    has_video: Sequence[bool]


def _shape(request: Instance, question: Question) -> str:
    """Return a key that is equal for questions of one batch.

    It consists of the generation arguments and the types of media, in order.

    Videos must also have equal lengths and frame rates.
    """
    contents = [
        content
        for message in question[0]
        for content in message["content"]
        if content["type"] != "text"
    ]
    videos = [content.get("video", ()) for content in contents]
    media = [
        (content["type"], len(video), getattr(video, "fps", None))
        for content, video in zip(contents, videos, strict=True)
    ]
    return json.dumps([request.args[1], media], sort_keys=True, default=str)


class AnswerGenerator:
    """Generate answers to chat messages in batches, greedily unless sampling is requested.

    Args:
        model: A transformers vision-language model, in eval mode, on its device.
        processor: The model's processor.
        apply_chat_template: As in `CandidateRanker`.

    Raises:
        RankingError: The chat template must be applied, but is missing or has no placeholder for
            images.

    Attributes:
        takes_video: As in `QuestionEncoder`.
        has_system_turn: As in `QuestionEncoder`.
    """

    def __init__(
        self, model: PreTrainedModel, processor: Any, *, apply_chat_template: bool | None = None
    ) -> None:
        keep_fractions(model)
        self._model = model
        self._tokenizer = processor.tokenizer
        if apply_chat_template is None:
            apply_chat_template = uses_template(model.config.to_dict(), processor)
        self._encoder = QuestionEncoder(
            processor, apply_chat_template=apply_chat_template, token_types=takes_token_types(model)
        )
        self._encoders = ThreadCopies(self._encoder)
        self._unknown_arguments: set[str] = set()
        self.takes_video = self._encoder.takes_video
        self.has_system_turn = self._encoder.has_system_turn

    def answers(
        self,
        requests: Sequence[Instance],
        load: Callable[[Instance], Question],
        shown_of: Callable[[Instance], Any],
        batch_size: int,
        defaults: Mapping[str, Any],
        workers: int,
    ) -> Generator[tuple[int, Answer, bool], None, None]:
        """Yield each request's index, the answer to its question, and whether a video was shown.

        Questions are loaded and batches encoded while the model generates. With a batch size of 1,
        requests are in the order of `group_by_media`. Those that show the same media, as in several
        conditions, share decoding and encoding. Of equal requests without sampling, only the first
        one is answered.

        Args:
            requests: Requests whose ``args[1]`` are generation arguments: ``until`` (stop strings),
                ``max_new_tokens``, ``do_sample`` (None leaves sampling to the checkpoint's
                generation config), ``temperature``, ``top_p``, ``top_k``, ``num_beams``,
                ``repetition_penalty``.
            load: Loads the question of a request. Must be thread-safe.
            shown_of: Returns the key of the question whose media a request shows.
            batch_size: Maximum number of questions per batch.
            defaults: Generation arguments that a request may override.
            workers: Number of threads that load and encode.

        Raises:
            ContextTooLongError: A question alone exceeds the model's positions.
        """

        def encode(questions: Sequence[Question], arguments: Mapping[str, Any]) -> EncodedBatch:
            conversations, question_ids = zip(*questions, strict=True)
            with self._encoders.borrow() as encoder:
                inputs = ready(encoder.generation_inputs(conversations), self._model)
            has_video = [_has_video(messages) for messages in conversations]
            return EncodedBatch(inputs, {**defaults, **arguments}, question_ids, has_video)

        def load_at(index: int) -> tuple[Any, str]:
            messages, question_id = load(requests[index])
            arguments = {**defaults, **requests[index].args[1]}
            # if left to the checkpoint, it may sample
            samples = self._keywords(arguments).get("do_sample", True)
            return (messages, arguments, samples and index), question_id

        pairs: Generator[tuple[EncodedBatch, list[int]], None, None]
        if batch_size == 1:
            pairs = prefetch_conditions(
                range(len(requests)),
                lambda index: shown_of(requests[index]),
                load_at,
                lambda content, question_id: encode([(content[0], question_id)], content[1]),
                workers,
            )
        else:
            batching = Batching[int, Question, Any](
                lambda *items: (
                    len({_shape(requests[index], question) for index, question in items}) == 1
                ),
                batch_size if self._encoder.applies_chat_template else 1,
                lambda batch: (
                    encode([loaded for _, loaded in batch], requests[batch[0][0]].args[1]),
                    [*dict(batch)],
                ),
                lambda pair: num_bytes(pair[0].inputs),
            )
            indices = range(len(requests))
            pairs = prefetch(
                indices, lambda i: load(requests[i]), workers, size=_media_bytes, batching=batching
            )
        with closing(pairs):
            for batch, equal in pairs:  # the indices of equal requests, or of those of the batch
                yield from zip(
                    equal, cycle(self._generate(batch)), cycle(batch.has_video), strict=False
                )
        logger.info(f"Reading ahead of the model took at most {PEAK.num_bytes / 2**20:,.0f} MiB")

    @torch.inference_mode()
    def _generate(self, batch: EncodedBatch) -> list[Answer]:
        arguments = batch.arguments
        question_ids = batch.question_ids
        stops = stop_strings(arguments)
        inputs = on_device(batch.inputs, self._model)
        for length, question_id in zip(
            inputs["attention_mask"].sum(dim=1).tolist(), question_ids, strict=True
        ):
            check_length(self._model, length, 1, question_id)
        model = self._model
        if not any(name.startswith("pixel_values") for name in inputs):
            model = text_model(model)
            inputs = {
                name: value for name, value in inputs.items() if not name.startswith("qformer_")
            }
        stopping = {"stop_strings": stops, "tokenizer": self._tokenizer} if stops else {}
        output = model.generate(**inputs, **self._keywords(arguments), **stopping)
        return [
            Answer(_cut(text, stops), int(mask.sum()), num_tokens)
            for (text, num_tokens), mask in zip(
                self.replies(output, inputs["input_ids"]), inputs["attention_mask"], strict=True
            )
        ]

    @torch.inference_mode()
    def beams(
        self, messages: Sequence[Message], width: int, new_tokens: int, question_id: str
    ) -> list[Beam]:
        """Return the best answers of a beam search, by mean log-probability per token, best first.

        Args:
            messages: Chat messages with at least one image or video.
            width: Width of the search and maximum number of answers. Of answers with the same text,
                the best one is kept.
            new_tokens: Maximum number of generated tokens.
            question_id: ID of the question for error messages.

        Raises:
            ContextTooLongError: The question exceeds the model's positions.
        """
        inputs = on_device(self._encoder.generation_inputs([messages]), self._model)
        check_length(self._model, int(inputs["attention_mask"].sum()), 1, question_id)
        output = self._model.generate(
            **inputs,
            **self._keywords({"max_new_tokens": new_tokens, "num_beams": width}),
            num_return_sequences=width,
            return_dict_in_generate=True,
            output_scores=True,
        )
        indices = getattr(output, "beam_indices", None)  # missing if the width is 1
        logprobs = self._model.compute_transition_scores(
            output.sequences, output.scores, indices, normalize_logits=indices is None
        )
        generated = self._generated_tokens(
            output.sequences, inputs["input_ids"].repeat_interleave(width, dim=0)
        )
        texts = (
            text.strip()
            for text in self._tokenizer.batch_decode(generated, skip_special_tokens=True)
        )
        beams: dict[str, Beam] = {}
        for row, text in enumerate(texts):
            scored = (
                logprobs[row]
                if indices is None
                else logprobs[row][indices[row][: logprobs.shape[1]] >= 0]
            )
            beams.setdefault(text, Beam(text, float(scored.sum()), len(scored)))
        return list(beams.values())

    def _generated_tokens(self, output: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        """Remove the prompt or the decoder's start token, which some models return, too."""
        if encoder_decoder_of(self._model) is not None:
            return output[:, 1:]
        if output.shape[1] >= prompt.shape[1] and torch.equal(output[:, : prompt.shape[1]], prompt):
            return output[:, prompt.shape[1] :]
        return output

    def replies(self, output: torch.Tensor, prompt: torch.Tensor) -> list[tuple[str, int]]:
        """Return the text and the number of tokens of each row that ``generate`` returns.

        The end of text does not count.

        Args:
            output: The rows, with or without the prompts, of shape (questions, tokens).
            prompt: Tokens of the prompts, of shape (questions, tokens).
        """
        rows = self._generated_tokens(output, prompt)
        texts = self._tokenizer.batch_decode(rows, skip_special_tokens=True)
        return [(text, self._count_tokens(ids)) for text, ids in zip(texts, rows, strict=True)]

    def _keywords(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        unknown = set(arguments) - _HANDLED - self._unknown_arguments
        if unknown:
            self._unknown_arguments |= unknown
            logger.warning(
                f"hf_vlm: ignoring unsupported generation arguments: {', '.join(sorted(unknown))}"
            )
        sampling = {name: arguments[name] for name in _SAMPLING_ARGUMENTS if arguments.get(name)}
        do_sample = arguments.get("do_sample", bool(sampling.get("temperature")))
        if do_sample is not None:
            sampling = {
                "do_sample": bool(do_sample),
                **(sampling if do_sample else dict.fromkeys(_SAMPLING_ARGUMENTS)),
            }
        passed_on = {
            name: arguments[name] for name in _PASSED_ON if arguments.get(name) is not None
        }
        return {"max_new_tokens": num_new_tokens(arguments), **sampling, **passed_on}

    def _count_tokens(self, ids: torch.Tensor) -> int:
        """Count the generated tokens, excluding the end of text and any padding after it."""
        ends = self._model.generation_config.eos_token_id
        special = {self._tokenizer.pad_token_id, self._tokenizer.eos_token_id}
        special |= set(ends) if isinstance(ends, list) else {ends}
        generated = ids.tolist()
        while generated and generated[-1] in special:
            generated.pop()
        return len(generated)


def _media_bytes(question: Question) -> int:
    return sum(num_bytes(message["content"]) for message in question[0])


def _has_video(messages: Sequence[Message]) -> bool:
    items = chain.from_iterable(message["content"] for message in messages)
    return any(item["type"] == "video" for item in items)


def num_new_tokens(arguments: Mapping[str, Any]) -> int:
    """Return the maximum number of new tokens.

    It is the task's, or `DEFAULT_NEW_TOKENS` if the task states none.
    """
    return int(arguments.get("max_new_tokens", arguments.get("max_gen_toks", DEFAULT_NEW_TOKENS)))


def stop_strings(arguments: Mapping[str, Any]) -> list[str]:
    """Return the texts that end an answer."""
    until = arguments.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def _cut(text: str, stops: list[str]) -> str:
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
