"""Batched text generation with a transformers vision-language model."""

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import torch
from loguru import logger
from transformers import PreTrainedModel

from lmms_egoplan.harnesses.prefetch import Batching, num_bytes, prefetch
from lmms_egoplan.memory_ahead import PEAK
from lmms_egoplan.ranking.decoder import text_model
from lmms_egoplan.ranking.encoder_decoder import encoder_decoder_of
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.precision import keep_fractions
from lmms_egoplan.ranking.question import check_length, on_device, ready
from lmms_egoplan.ranking.thread_copies import ThreadCopies

DEFAULT_NEW_TOKENS = 1024
_SAMPLING_ARGUMENTS = ("temperature", "top_k", "top_p")
_PASSED_ON = ("num_beams", "repetition_penalty")
_HANDLED = {"do_sample", "max_gen_toks", "max_new_tokens", "until", *_SAMPLING_ARGUMENTS, *_PASSED_ON}


class Instance(Protocol):
    """A request of a harness."""

    args: tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """A generated answer: text, cut at the first stop string, and the tokens that went in and came out.

    output_tokens: without the end of text, so it equals the limit on new tokens just where that ended the answer.
    """

    text: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Beam:
    """One answer of a beam search: its text, and the sum of its tokens' log-probabilities, in nats."""

    text: str
    logprob: float
    num_tokens: int


# Chat messages, and the id that names the question in errors.
Question = tuple[list[Message], str]


@dataclass(frozen=True)
class EncodedBatch:
    """Questions that are generated for together.

    inputs: as `ready` leaves them, padded on the left.
    arguments: generation arguments.
    has_video: whether each question shows a video.
    num_bytes: of the inputs.
    """

    inputs: dict[str, Any]
    arguments: Mapping[str, Any]
    question_ids: Sequence[str]
    has_video: Sequence[bool]
    num_bytes: int


def _shape(request: Instance, question: Question) -> str:
    """Return what questions of a batch have in common: generation arguments and kinds of media in their order.

    Videos must also have the same lengths and frame rates.
    """
    contents = [content for message in question[0] for content in message["content"] if content["type"] != "text"]
    videos = [content.get("video", ()) for content in contents]
    media = [
        (content["type"], len(video), getattr(video, "fps", None))
        for content, video in zip(contents, videos, strict=True)
    ]
    return json.dumps([request.args[1], media], sort_keys=True, default=str)


class AnswerGenerator:
    """Generator of answers to chat messages, a batch at a time, greedily unless asked to sample.

    Attributes:
        takes_video, has_system_turn: as of `QuestionEncoder`.
    """

    def __init__(self, model: PreTrainedModel, processor: Any) -> None:
        keep_fractions(model)
        self._model = model
        self._tokenizer = processor.tokenizer
        self._encoder = QuestionEncoder(processor)
        self._encoders = ThreadCopies(self._encoder)
        self._unknown_arguments: set[str] = set()
        self.takes_video = self._encoder.takes_video
        self.has_system_turn = self._encoder.has_system_turn

    def answers(
        self,
        requests: Iterable[Instance],
        load: Callable[[Instance], Question],
        batch_size: int,
        defaults: Mapping[str, Any],
        workers: int,
    ) -> Generator[tuple[Answer, bool], None, None]:
        """Yield the answer to each request's question, and whether a video was shown.

        Questions are loaded, and batches encoded, while the model generates.

        Args:
            requests: their ``args[1]`` are generation arguments: ``until`` (stop strings), ``max_new_tokens``,
                ``do_sample``, ``temperature``, ``top_p``, ``top_k``, ``num_beams``, ``repetition_penalty``.
            load: may be called from several threads.
            defaults: generation arguments that a request may replace.
            workers: threads that load and encode.

        Raises:
            ContextTooLongError: a question alone exceeds the model's positions.
        """

        def encode(batch: Sequence[tuple[Instance, Question]]) -> EncodedBatch:
            messages, question_ids = zip(*(question for _, question in batch), strict=True)
            return self._encode(messages, {**defaults, **batch[0][0].args[1]}, question_ids)

        most = batch_size if self._encoder.applies_chat_template else 1
        batching = Batching(lambda one, other: _shape(*one) == _shape(*other), most, encode, attrgetter("num_bytes"))
        batches = prefetch(requests, load, workers, size=_media_bytes, batching=batching)
        with closing(batches):
            for batch in batches:
                yield from zip(self._generate(batch), batch.has_video, strict=True)
        logger.info(f"Reading ahead of the model took at most {PEAK.num_bytes / 2**20:,.0f} MiB")

    def _encode(
        self, questions: Sequence[Sequence[Message]], arguments: Mapping[str, Any], question_ids: Sequence[str]
    ) -> EncodedBatch:
        """Encode a batch. May be called from several threads."""
        with self._encoders.borrow() as encoder:
            inputs = ready(encoder.generation_inputs(questions), self._model)
        has_video = [
            any(item["type"] == "video" for message in messages for item in message["content"])
            for messages in questions
        ]
        return EncodedBatch(inputs, arguments, question_ids, has_video, num_bytes(inputs))

    @torch.inference_mode()
    def _generate(self, batch: EncodedBatch) -> list[Answer]:
        arguments, question_ids = batch.arguments, batch.question_ids
        stops = _stop_strings(arguments)
        inputs = on_device(batch.inputs, self._model)
        for length, question_id in zip(inputs["attention_mask"].sum(dim=1).tolist(), question_ids, strict=True):
            check_length(self._model, length, 1, question_id)
        model = self._model
        if not any(name.startswith("pixel_values") for name in inputs):
            model = text_model(model)
            inputs = {name: value for name, value in inputs.items() if not name.startswith("qformer_")}
        stopping = {"stop_strings": stops, "tokenizer": self._tokenizer} if stops else {}
        output = model.generate(**inputs, **self._keywords(arguments), **stopping)
        output = self._written(output, inputs["input_ids"])
        texts = self._tokenizer.batch_decode(output, skip_special_tokens=True)
        return [
            Answer(_cut(text, stops), int(mask.sum()), self._count_tokens(ids))
            for text, mask, ids in zip(texts, inputs["attention_mask"], output, strict=True)
        ]

    @torch.inference_mode()
    def beams(self, messages: Sequence[Message], width: int, new_tokens: int, question_id: str) -> list[Beam]:
        """Return the best answers that beam search finds, by mean log-probability per token, the best first.

        Args:
            messages: with at least one image or video.
            width: of the search, and at most so many answers; of those with the same text the best one stays.
            new_tokens: at most so many are generated.
            question_id: names the question in errors.

        Raises:
            ContextTooLongError: the question exceeds the model's positions.
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
        indices = getattr(output, "beam_indices", None)  # there is none where the width is 1
        logprobs = self._model.compute_transition_scores(
            output.sequences, output.scores, indices, normalize_logits=indices is None
        )
        written = self._written(output.sequences, inputs["input_ids"].repeat_interleave(width, dim=0))
        texts = (text.strip() for text in self._tokenizer.batch_decode(written, skip_special_tokens=True))
        beams: dict[str, Beam] = {}
        for row, text in enumerate(texts):
            scored = logprobs[row] if indices is None else logprobs[row][indices[row][: logprobs.shape[1]] >= 0]
            beams.setdefault(text, Beam(text, float(scored.sum()), len(scored)))
        return list(beams.values())

    def _written(self, output: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        """Return what was generated, without the prompt or the decoder's start token, which some models return too."""
        if encoder_decoder_of(self._model) is not None:
            return output[:, 1:]
        if output.shape[1] >= prompt.shape[1] and torch.equal(output[:, : prompt.shape[1]], prompt):
            return output[:, prompt.shape[1] :]
        return output

    def _keywords(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        unknown = set(arguments) - _HANDLED - self._unknown_arguments
        if unknown:
            self._unknown_arguments |= unknown
            logger.warning(f"hf_vlm: generation arguments without effect here: {', '.join(sorted(unknown))}")
        new_tokens = arguments.get("max_new_tokens", arguments.get("max_gen_toks", DEFAULT_NEW_TOKENS))
        sampling = {name: arguments[name] for name in _SAMPLING_ARGUMENTS if arguments.get(name)}
        do_sample = bool(arguments.get("do_sample", sampling.get("temperature")))
        if not do_sample:
            sampling = dict.fromkeys(_SAMPLING_ARGUMENTS)
        passed_on = {name: arguments[name] for name in _PASSED_ON if arguments.get(name) is not None}
        return {"max_new_tokens": int(new_tokens), "do_sample": do_sample, **sampling, **passed_on}

    def _count_tokens(self, ids: torch.Tensor) -> int:
        """Count the generated tokens, without the end of text and the padding after it."""
        ends = self._model.generation_config.eos_token_id
        special = {self._tokenizer.pad_token_id, self._tokenizer.eos_token_id}
        special |= set(ends) if isinstance(ends, list) else {ends}
        generated = ids.tolist()
        while generated and generated[-1] in special:
            generated.pop()
        return len(generated)


def _media_bytes(question: Question) -> int:
    return sum(num_bytes(message["content"]) for message in question[0])


def _stop_strings(arguments: Mapping[str, Any]) -> list[str]:
    until = arguments.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def _cut(text: str, stops: list[str]) -> str:
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
