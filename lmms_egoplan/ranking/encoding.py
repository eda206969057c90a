"""Tokenise messages and candidates with the processor's chat template."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.video_utils import VideoMetadata

from lmms_egoplan.ranking.chat_templates import (
    Message,
    has_system_turn,
    has_video,
    keeps_order,
    template_problem,
    use_template_of_tokenizer,
)
from lmms_egoplan.ranking.loglikelihood import END_OF_ANSWER
from lmms_egoplan.ranking.question import (
    CandidateTokens,
    EncodedQuestion,
    RankingError,
    is_per_token,
)
from lmms_egoplan.ranking.shared_processor import with_shared_parts
from lmms_egoplan.text import MediaMarker

_MEDIA = re.compile(r"image|img|video|audio|vision|frame|media|boi_|eoi_|patch", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SplitQuestion:
    """A question's text as tokens, with media as the template renders them.

    Each medium is usually one placeholder.

    Attributes:
        prefix: Tokens of the context that all candidates share.
        candidates: The candidates, in the caller's order.
        tail: All tokens after the prefix in the first candidate's text.
    """

    prefix: list[int]
    candidates: list[CandidateTokens]
    tail: list[int]


class QuestionEncoder:
    """Encode questions for one model.

    Decoder-only models: The chat template renders the conversation with the candidate as the
    assistant's turn. The whole text is tokenised, then split. A candidate's tokens are those with
    at least one of its characters. A token that merges the end of the context with the start of a
    candidate therefore belongs to the candidate. The shared prefix is the longest one common to all
    candidates that ends at or before the first candidate token.

    Encoder-decoder models: The encoder gets the context, and the decoder gets the candidate.

    Without a chat template, the input consists of image placeholders, the text and the candidate. A
    space separates text and candidate, unless one of them already has white space there, or
    `separate_candidates` is false. An empty input begins with the token that begins or else ends
    texts, as in lm-eval.

    If the template has no system turn, a system message comes before the text of the user's turn.

    A video is a list of frames, or a `Clip` if its frame rate is known. Processors derive time
    stamps and positions from the rate. Without one, they use their own default, usually 24 frames
    per second.

    Args:
        processor: The model's processor.
        is_encoder_decoder: Whether the decoder gets the candidate.
        score_eos: See the attribute `scores_eos`.
        apply_chat_template: See the attribute `applies_chat_template`.
        separate_candidates: Whether a space separates text and candidate without a chat template.
        token_types: Whether the model takes the types of its tokens (`takes_token_types`).

    Raises:
        RankingError: The chat template must be applied, but is missing or has no placeholder for
            images.

    Attributes:
        applies_chat_template: Whether the chat template of the processor, or else of its tokenizer,
            renders messages.
        has_system_turn: Whether the template supports a system message.
        takes_video: Whether processor and template accept videos.
        scores_eos: Whether every candidate ends with the token that ends the assistant's turn; see
            `closed`.
    """

    def __init__(
        self,
        processor: Any,
        *,
        is_encoder_decoder: bool = False,
        score_eos: bool = False,
        apply_chat_template: bool = True,
        separate_candidates: bool = True,
        token_types: bool = False,
    ) -> None:
        self._processor = processor = with_shared_parts(processor)
        self._tokenizer = processor.tokenizer
        self._is_encoder_decoder = is_encoder_decoder
        self.scores_eos = score_eos
        self.applies_chat_template = apply_chat_template
        self._separates_candidate = separate_candidates
        self._options = {"return_mm_token_type_ids": True} if token_types else {}
        if apply_chat_template:
            use_template_of_tokenizer(processor)
            checkpoint = self._tokenizer.name_or_path or type(processor).__name__
            name = f"of {checkpoint}" if processor.chat_template else None
            problem = template_problem(name, processor.apply_chat_template)
            if problem:
                raise RankingError(f"{checkpoint}: {problem}")
        self._placeholders = _media_placeholders(processor)
        self._reserved = re.compile(
            "|".join(map(re.escape, _reserved_texts(processor, self._placeholders)))
        )
        self.has_system_turn = self.applies_chat_template and has_system_turn(
            processor.apply_chat_template
        )
        self._keeps_order = self.applies_chat_template and keeps_order(
            processor.apply_chat_template
        )
        has_video_processor = getattr(processor, "video_processor", None) is not None
        self.takes_video = (
            self.applies_chat_template
            and has_video_processor
            and has_video(processor.apply_chat_template)
        )

    def ordinary_tokens(self, text: str) -> list[int]:
        """Return the token IDs of a text by itself, without special tokens."""
        special = set(self._tokenizer.all_special_ids)
        return [
            token
            for token in self._tokenizer(text, add_special_tokens=False)["input_ids"]
            if token not in special
        ]

    def reserved_text(self, text: str) -> str | None:
        """Return the first media placeholder or special token in a text.

        The model would not read it as text.
        """
        match = self._reserved.search(text)
        return match[0] if match else None

    def closed(self, candidates: Sequence[str], question_id: str) -> tuple[list[str], bool]:
        """Return the candidates without `END_OF_ANSWER`, and whether the end is scored.

        The end is the token that ends the assistant's turn.

        Raises:
            RankingError: Only some candidates end with `END_OF_ANSWER`.
        """
        marked = {
            isinstance(candidate, str) and candidate.endswith(END_OF_ANSWER)
            for candidate in candidates
        }
        if len(marked) > 1:
            raise RankingError(
                f"question {question_id}: some candidates end with {END_OF_ANSWER!r}, some do not"
            )
        if marked != {True}:
            return list(candidates), self.scores_eos
        return [candidate.removesuffix(END_OF_ANSWER) for candidate in candidates], True

    def encode(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> EncodedQuestion:
        """Tokenise a question with its candidates.

        Raises:
            RankingError: There are no candidates, one is empty, the chat template or the tokenizer
                changes one, or the processor tokenises text with media differently from its own
                tokenizer.
        """
        candidates, are_closed = self.closed(candidates, question_id)
        messages = self._checked(messages, candidates, question_id)
        encode = (
            self._encode_for_encoder_decoder
            if self._is_encoder_decoder
            else self._encode_for_decoder
        )
        return encode(messages, candidates, question_id, are_closed=are_closed)

    def split(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> SplitQuestion:
        """Tokenise for an engine that processes media itself.

        For decoder-only models with a chat template.

        Raises:
            RankingError: As in `encode`; also if the context is empty.
        """
        candidates, are_closed = self.closed(candidates, question_id)
        messages = self._checked(messages, candidates, question_id)
        split = self._split(messages, candidates, question_id, are_closed=are_closed)
        if not split.prefix:
            raise RankingError(
                f"question {question_id}: the context is empty; nothing predicts the first token"
            )
        return split

    def prompt(self, messages: Sequence[Message]) -> tuple[list[int], bool]:
        """Tokenise a context ready for an answer.

        Also return whether the tokenizer added special tokens.

        Media are as the template renders them. For models with a chat template.
        """
        text = self._processor.apply_chat_template(
            self._conversation(messages), tokenize=False, add_generation_prompt=True
        )
        adds_special_tokens = self._adds_special_tokens(text)
        return self._tokenizer(text, add_special_tokens=adds_special_tokens)[
            "input_ids"
        ], adds_special_tokens

    def _checked(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> list[Message]:
        """Return the conversation if the candidates can be ranked after it."""
        if not candidates:
            raise RankingError(f"question {question_id}: no candidates to rank")
        for index, candidate in enumerate(candidates):
            if not isinstance(candidate, str) or not candidate.strip():
                raise RankingError(
                    f"question {question_id}: candidate {index} is empty: {candidate!r}"
                )
            placeholder = next((token for token in self._placeholders if token in candidate), None)
            if placeholder:
                raise RankingError(
                    f"question {question_id}: candidate {index} contains {placeholder}, a media "
                    f"placeholder of this model: {candidate!r}; remove it"
                )
        return self._conversation(messages)

    def generation_inputs(self, conversations: Sequence[Sequence[Message]]) -> dict[str, Any]:
        """Return model inputs for generation, padded on the left.

        Without a chat template, pass one context at a time.
        """
        contexts = [self._conversation(messages) for messages in conversations]
        if self.applies_chat_template:
            padding = {"padding": True, "padding_side": "left"} if len(contexts) > 1 else {}
            return self._apply_chat_template(contexts, padding, add_generation_prompt=True)
        (messages,) = contexts
        return self._plain_inputs(messages, _text_of(messages))

    def _conversation(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages whose contents are lists.

        System messages are merged into the user's if the template does not support them.

        Raises:
            RankingError: There are marks, which the chat template would move away from their
                images.
        """
        conversation = [_with_content_list(message) for message in messages]
        items = (item for message in conversation for item in message["content"])
        if not self._keeps_order and any(
            isinstance(item.get("text"), MediaMarker) for item in items
        ):
            raise RankingError(
                f"{type(self._processor).__name__}: this model has no chat template, or one that "
                "puts all images before the text, away from their marks; use a task or a setting "
                "without marks (clip_marks)"
            )
        if self.has_system_turn or not any(message["role"] == "system" for message in conversation):
            return conversation
        system = [message for message in conversation if message["role"] == "system"]
        turns = [message for message in conversation if message["role"] != "system"]
        return _with_text_before(_text_of(system), turns)

    def _encode_for_decoder(
        self,
        messages: list[Message],
        candidates: Sequence[str],
        question_id: str,
        *,
        are_closed: bool,
    ) -> EncodedQuestion:
        split = self._split(messages, candidates, question_id, are_closed=are_closed)
        inputs = self._inputs_with_candidate(messages, candidates[0])
        full_ids = inputs["input_ids"][0].tolist()
        prefix_length = len(full_ids) - len(split.tail)
        if full_ids[prefix_length:] != split.tail:
            raise RankingError(
                f"question {question_id}: {type(self._processor).__name__} tokenises the text with "
                f"its images differently from {type(self._tokenizer).__name__} without them, so "
                "the candidates' tokens cannot be identified; use another model"
            )
        if prefix_length == 0:
            raise RankingError(
                f"question {question_id}: the context is empty; nothing predicts the first token"
            )
        return EncodedQuestion(
            inputs={
                name: value[:, :prefix_length] if is_per_token(name, value, inputs) else value
                for name, value in inputs.items()
            },
            candidates=split.candidates,
            question_id=question_id,
            num_visuals=num_visuals(messages),
        )

    def _split(
        self,
        messages: list[Message],
        candidates: Sequence[str],
        question_id: str,
        *,
        are_closed: bool,
    ) -> SplitQuestion:
        """Find the boundary between the context's tokens and each candidate's.

        All rankers share this method.
        """
        tokenised = [
            self._tokenise_with_candidate(messages, candidate, question_id)
            for candidate in candidates
        ]
        boundary = min(
            _common_prefix_length([ids for ids, _ in tokenised]),
            min(span.start for _, span in tokenised),
        )
        closing = self._closing_token(messages) if are_closed else []
        return SplitQuestion(
            prefix=tokenised[0][0][:boundary],
            candidates=[
                CandidateTokens(ids[boundary : span.stop] + closing, first=span.start - boundary)
                for ids, span in tokenised
            ],
            tail=tokenised[0][0][boundary:],
        )

    def _encode_for_encoder_decoder(
        self,
        messages: list[Message],
        candidates: Sequence[str],
        question_id: str,
        *,
        are_closed: bool,
    ) -> EncodedQuestion:
        rows = []
        for candidate in candidates:
            encoded = self._tokenizer(text_target=candidate, return_special_tokens_mask=True)
            ids = encoded["input_ids"]
            special = encoded["special_tokens_mask"]
            first = special.index(0)
            stop = len(special) - special[::-1].index(0)
            closing = [self._tokenizer.eos_token_id] if are_closed else []
            rows.append(CandidateTokens(ids[:stop] + closing, first=first))
        return EncodedQuestion(
            self.generation_inputs([messages]), rows, question_id, num_visuals(messages)
        )

    def _render(self, messages: list[Message], candidate: str) -> str:
        """Render the conversation as text, ending with the candidate."""
        if not self.applies_chat_template:
            text = _text_of(messages)
            if (
                self._separates_candidate
                and text
                and not (text[-1].isspace() or candidate[0].isspace())
            ):
                text += " "
            if not text and not self._tokenizer("")["input_ids"]:
                text = self._tokenizer.bos_token or self._tokenizer.eos_token or ""
            return text + candidate
        return self._processor.apply_chat_template(
            [*messages, _assistant_turn(candidate)], tokenize=False, continue_final_message=True
        )

    def _tokenise_with_candidate(
        self, messages: list[Message], candidate: str, question_id: str
    ) -> tuple[list[int], range]:
        """Return the token IDs of the context and candidate, and the candidate's indices."""
        text = self._render(messages, candidate)
        if not text.endswith(candidate):  # some templates trim answers
            candidate = candidate.strip()
        if not text.endswith(candidate):
            raise RankingError(
                f"question {question_id}: the chat template changes the candidate {candidate!r}"
            )
        start = len(text) - len(candidate)
        encoded = self._tokenizer(
            text,
            add_special_tokens=self._adds_special_tokens(text),
            return_offsets_mapping=self._tokenizer.is_fast,
        )
        ids = encoded["input_ids"]
        if self._tokenizer.is_fast:
            spans = encoded["offset_mapping"]
            indices = [index for index, (begin, end) in enumerate(spans) if end > max(begin, start)]
            if not indices:
                raise RankingError(
                    f"question {question_id}: the tokenizer drops the candidate {candidate!r}"
                )
            return ids, range(indices[0], indices[-1] + 1)
        context = self._tokenizer(text[:start], add_special_tokens=self._adds_special_tokens(text))[
            "input_ids"
        ]
        return ids, range(_common_prefix_length([ids, context]), len(ids))

    def _inputs_with_candidate(self, messages: list[Message], candidate: str) -> dict[str, Any]:
        if self.applies_chat_template:
            conversation = [*messages, _assistant_turn(candidate)]
            return self._apply_chat_template([conversation], {}, continue_final_message=True)
        return self._plain_inputs(messages, self._render(messages, candidate))

    def _apply_chat_template(
        self, conversations: list[list[Message]], processor_kwargs: dict[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        items = [
            item
            for messages in conversations
            for message in messages
            for item in message["content"]
        ]
        processor_kwargs = self._options | processor_kwargs
        videos = [item["video"] for item in items if item["type"] == "video"]
        if videos:
            # The task has chosen the frames; the processor must not subsample them.
            processor_kwargs = {
                **processor_kwargs,
                "do_sample_frames": False,
                **_frame_rates(videos),
            }
        inputs = self._processor.apply_chat_template(
            [_copied(messages) for messages in conversations],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs=processor_kwargs,
            **kwargs,
        )
        return dict(inputs)

    def _plain_inputs(self, messages: list[Message], text: str) -> dict[str, Any]:
        """Return inputs without a chat template.

        They have one placeholder per image, if the processor has one, then the text.

        BLIP-2's and InstructBLIP's processors always add the query tokens of only one image, so
        those of further images are added here. The Q-Former's instruction is the context, never a
        candidate, and the same for each image.
        """
        items = [item for message in messages for item in message["content"]]
        if any(item["type"] == "video" for item in items):
            raise RankingError(
                f"{type(self._processor).__name__} has no chat template and does not accept video"
            )
        images = [item["image"] for item in items if item["type"] == "image"]
        queries = getattr(self._processor, "num_query_tokens", None)
        if not images or queries is None:
            placeholders = str(getattr(self._processor, "image_token", "")) * len(images)
            inputs = dict(
                self._processor(
                    text=placeholders + text,
                    images=images or None,
                    return_tensors="pt",
                    **self._options,
                )
            )
            if "image_grid_thw" in inputs and _num_images_in_positions(inputs) not in (
                None,
                len(images),
            ):
                raise RankingError(
                    f"{type(self._processor).__name__}: without a chat template, this model takes "
                    f"{len(images)} adjacent images for one; use a checkpoint with its chat "
                    "template, or show one image per question"
                )
            return inputs
        inputs = dict(self._processor(text=text, images=images, return_tensors="pt"))
        context = self._processor(text=_text_of(messages), return_tensors="pt")
        further = (len(images) - 1) * queries
        for name in ("input_ids", "attention_mask"):
            inputs[name] = torch.cat([inputs[name][:, :1].expand(-1, further), inputs[name]], dim=1)
        for name in ("qformer_input_ids", "qformer_attention_mask"):
            if name in inputs:
                inputs[name] = context[name].expand(len(images), -1)
        return inputs

    def _adds_special_tokens(self, text: str) -> bool:
        """Return whether to add special tokens.

        As in ``apply_chat_template``, not if the template has added them.
        """
        bos = self._tokenizer.bos_token
        return not (self.applies_chat_template and bos is not None and text.startswith(bos))

    def _closing_token(self, messages: list[Message]) -> list[int]:
        """Return the special token that ends an assistant's turn.

        It is the template's, or else the tokenizer's end of text.
        """
        if self.applies_chat_template:
            # Render any answer to see what the template adds after it.
            answer = "answer"
            rendered = self._processor.apply_chat_template(
                [*messages, _assistant_turn(answer)], tokenize=False
            )
            closing = rendered[rendered.rindex(answer) + len(answer) :]
            special = set(self._tokenizer.all_special_ids) | set(
                self._tokenizer.added_tokens_decoder
            )
            for token in self._tokenizer(closing, add_special_tokens=False)["input_ids"]:
                if token in special:
                    return [token]
        if self._tokenizer.eos_token_id is None:
            raise RankingError("score_eos: the tokenizer has no end-of-text token")
        return [self._tokenizer.eos_token_id]


def takes_token_types(model: PreTrainedModel) -> bool:
    """Return whether a model takes the type of each token: text, image or video.

    Not every processor returns them.
    """
    return "mm_token_type_ids" in inspect.signature(model.forward).parameters


def _copied(messages: Sequence[Message]) -> list[Message]:
    """Copy messages, which some processors change."""
    return [dict(message) for message in messages]


def _media_placeholders(processor: Any) -> list[str]:
    """Return the texts that represent or enclose media.

    These are the harnesses' placeholders and the model's special tokens.
    """
    tokenizer = processor.tokenizer
    placeholders = {"<image>", "<video>"} | {
        token for token in _special_tokens(tokenizer) if _MEDIA.search(token)
    }
    for owner in (processor, tokenizer):
        for name in dir(owner):
            if not name.endswith("_token") or not _MEDIA.search(name):
                continue
            token = getattr(owner, name)
            if isinstance(token, str):
                placeholders.add(token)
    return sorted(token for token in placeholders if token.strip())


def _reserved_texts(processor: Any, placeholders: Sequence[str]) -> list[str]:
    """Return placeholders and special tokens, longest first.

    Punctuation is not reserved, although some models use it as padding.
    """
    special = _special_tokens(processor.tokenizer) | set(processor.tokenizer.all_special_tokens)
    return sorted(
        {token for token in special if len(token.strip()) > 2} | set(placeholders),
        key=len,
        reverse=True,
    )


def _special_tokens(tokenizer: Any) -> set[str]:
    return {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}


def _assistant_turn(candidate: str) -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": candidate}]}


def _with_content_list(message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": list(content)}


def _text_of(messages: list[Message]) -> str:
    return "\n".join(
        item["text"]
        for message in messages
        for item in message["content"]
        if item["type"] == "text"
    )


def num_visuals(messages: list[Message]) -> int:
    """Count images and video frames."""
    items = [item for message in messages for item in message["content"]]
    return sum(
        len(item["video"]) if item["type"] == "video" else item["type"] == "image" for item in items
    )


def _num_images_in_positions(inputs: Mapping[str, Any]) -> int | None:
    """Count the images in the inputs of a model that takes adjacent image tokens for one.

    None if the number is unknown.
    """
    kinds = inputs.get("mm_token_type_ids")
    return None if kinds is None else sum(kind == 1 for kind, _ in groupby(kinds[0].tolist()))


def _with_text_before(text: str, messages: list[Message]) -> list[Message]:
    """Insert a text and a line break before the first text of the messages.

    Media before that text stay before it.
    """
    for message in messages:
        for index, item in enumerate(message["content"]):
            if item["type"] == "text":
                message["content"][index] = {**item, "text": f"{text}\n{item['text']}"}
                return messages
    return [{"role": "user", "content": [{"type": "text", "text": text}]}, *messages]


def _frame_rates(videos: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return processor arguments with the frame rates of the videos, in order.

    Empty if no rate is known.
    """
    rates = [getattr(video, "fps", None) for video in videos]
    if not any(rates):
        return {}
    metadata = [
        VideoMetadata(
            total_num_frames=len(video),
            fps=rate,
            duration=None if rate is None else len(video) / rate,
            frames_indices=list(range(len(video))),
        )
        for video, rate in zip(videos, rates, strict=True)
    ]
    arguments: dict[str, Any] = {"video_metadata": metadata[0] if len(metadata) == 1 else metadata}
    if len(set(rates)) == 1:
        arguments["fps"] = rates[0]  # Qwen's omni models read this instead
    return arguments


def _common_prefix_length(sequences: list[list[int]]) -> int:
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False))
    return sum(1 for _ in columns)
