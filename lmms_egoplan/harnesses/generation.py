"""Batched text generation with a transformers vision-language model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from loguru import logger
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import text_model
from lmms_egoplan.ranking.encoder_decoder import encoder_decoder_of
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.question import check_length, on_device
from lmms_egoplan.ranking.video_seconds import keep_fractions

DEFAULT_NEW_TOKENS = 1024
_SAMPLING_ARGUMENTS = ("temperature", "top_k", "top_p")
_PASSED_ON = ("num_beams", "repetition_penalty")
_HANDLED = {"do_sample", "max_gen_toks", "max_new_tokens", "until", *_SAMPLING_ARGUMENTS, *_PASSED_ON}


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


Question = tuple[list[Message], str]
"""Chat messages, and the id that names the question in errors."""


def batches(loaded: Iterator[tuple[list[Any], Question]], size: int) -> Iterator[list[tuple[list[Any], Question]]]:
    """At most ``size`` consecutive questions with the same generation arguments and the same media.

    That is: the same kinds in the same order, videos of the same length and frame rate.

    Args:
        loaded: each question behind its request, the only one in a list, whose ``args[1]`` are the arguments.
    """

    def alike(item: tuple[list[Any], Question]) -> str:
        (request,), (messages, _) = item
        contents = [content for message in messages for content in message["content"] if content["type"] != "text"]
        videos = [content.get("video", ()) for content in contents]
        media = [
            (content["type"], len(video), getattr(video, "fps", None))
            for content, video in zip(contents, videos, strict=True)
        ]
        return json.dumps([request.args[1], media], sort_keys=True, default=str)

    batch: list[tuple[list[Any], Question]] = []
    for item in loaded:
        if batch and (len(batch) == size or alike(item) != alike(batch[0])):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


class AnswerGenerator:
    """Generates answers to chat messages, a batch at a time, greedily unless asked to sample.

    Attributes:
        takes_video, has_system_turn: as of `QuestionEncoder`.
    """

    def __init__(self, model: PreTrainedModel, processor: Any) -> None:
        keep_fractions(model)
        self._model = model
        self._tokenizer = processor.tokenizer
        self._encoder = QuestionEncoder(processor, is_encoder_decoder=False, score_eos=False)
        self._unknown_arguments: set[str] = set()
        self.takes_video = self._encoder.takes_video
        self.has_system_turn = self._encoder.has_system_turn

    def answers(
        self, loaded: Iterator[tuple[list[Any], Question]], batch_size: int, defaults: Mapping[str, Any]
    ) -> Iterator[tuple[list[Message], Answer]]:
        """Answer questions as they are loaded: each one's chat messages, and its answer.

        Args:
            loaded: as for `batches`.
            defaults: generation arguments that a request may replace.

        Raises:
            ContextTooLongError: as `generate`.
        """
        for batch in batches(loaded, batch_size):
            messages, question_ids = zip(*(question for _, question in batch), strict=True)
            arguments = {**defaults, **batch[0][0][0].args[1]}
            yield from zip(messages, self.generate(messages, arguments, question_ids), strict=True)

    @torch.inference_mode()
    def generate(
        self,
        questions: Sequence[Sequence[Message]],
        arguments: Mapping[str, Any],
        question_ids: Sequence[str],
    ) -> list[Answer]:
        """Answer each question.

        Args:
            questions: chat messages of each, all with the same kinds of media in the same order.
            arguments: ``until`` (stop strings), ``max_new_tokens``, ``do_sample``, ``temperature``,
                ``top_p``, ``top_k``, ``num_beams``, ``repetition_penalty``.
            question_ids: name the questions in errors.

        Raises:
            ContextTooLongError: a question alone exceeds the model's positions.
        """
        if len(questions) > 1 and not self._encoder.applies_chat_template:
            return [
                answer
                for question, question_id in zip(questions, question_ids, strict=True)
                for answer in self.generate([question], arguments, [question_id])
            ]
        stops = _stop_strings(arguments)
        inputs = on_device(self._encoder.generation_inputs(questions), self._model)
        for length, question_id in zip(inputs["attention_mask"].sum(dim=1).tolist(), question_ids, strict=True):
            check_length(self._model, length, 1, question_id)
        model = self._model
        if not any(name.startswith("pixel_values") for name in inputs):
            model = text_model(model)
            inputs = {name: value for name, value in inputs.items() if not name.startswith("qformer_")}
        output = model.generate(**inputs, **self._keywords(arguments), **self._stopping(stops))
        output = self._written(output, inputs["input_ids"])
        texts = self._tokenizer.batch_decode(output, skip_special_tokens=True)
        return [
            Answer(_cut(text, stops), int(mask.sum()), self._count_tokens(ids))
            for text, mask, ids in zip(texts, inputs["attention_mask"], output, strict=True)
        ]

    @torch.inference_mode()
    def beams(self, messages: Sequence[Message], width: int, new_tokens: int, question_id: str) -> list[Beam]:
        """The best answers that beam search finds, by mean log-probability per token, the best first.

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
        """What was generated, where the model returns it behind the prompt or the decoder's start token."""
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

    def _stopping(self, stops: list[str]) -> dict[str, Any]:
        return {"stop_strings": stops, "tokenizer": self._tokenizer} if stops else {}

    def _count_tokens(self, ids: torch.Tensor) -> int:
        """Generated tokens; neither the end of text nor the padding behind it."""
        ends = self._model.generation_config.eos_token_id
        special = {self._tokenizer.pad_token_id, self._tokenizer.eos_token_id}
        special |= set(ends) if isinstance(ends, list) else {ends}
        generated = ids.tolist()
        while generated and generated[-1] in special:
            generated.pop()
        return len(generated)


def _stop_strings(arguments: Mapping[str, Any]) -> list[str]:
    until = arguments.get("until") or []
    return [stop for stop in ([until] if isinstance(until, str) else until) if stop]


def _cut(text: str, stops: list[str]) -> str:
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]
