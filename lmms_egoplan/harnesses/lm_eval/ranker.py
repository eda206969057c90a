"""``--model hf-vlm-ranker``: lm-eval's ``hf-multimodal`` with likelihoods of continuations behind images."""

import itertools
import re
from collections.abc import Generator
from contextlib import closing
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER, HFMultimodalLM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import Collator, resize_image
from tqdm import tqdm

from lmms_egoplan.harnesses.checkpoints import check_arguments, load_config
from lmms_egoplan.harnesses.generation import AnswerGenerator, Question
from lmms_egoplan.harnesses.lm_eval import response_cache
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages, load_images
from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, VIDEO, ShownAnswer
from lmms_egoplan.harnesses.memory import num_bytes
from lmms_egoplan.harnesses.prefetch import num_workers, prefetch
from lmms_egoplan.media.clip import Clip
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.loglikelihood import LoglikelihoodPair
from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion, RankingError, on_device, ready
from lmms_egoplan.ranking.ranker import AUTO, RANKING_VERSION
from lmms_egoplan.ranking.thread_copies import ThreadCopies
from lmms_egoplan.ranking.weights import folder_version, weights_version

NAME = "hf-vlm-ranker"

BATCHES_STORED = 16
"""Batches of answers that a killed run can lose at most."""

# Arguments that change no answer.
WITHOUT_EFFECT = {"batch_size", "max_batch_size", "device"}

Message = dict[str, Any]

_LEADING_IMAGES = re.compile(rf"(?:\s*{DEFAULT_IMAGE_PLACEHOLDER})*")


class ChatPrompt(str):
    """A rendered chat prompt that still knows its messages, whose images stand as ``{"type": "image"}``.

    A candidate is rendered as the assistant's turn behind them. That is not always the prompt with the candidate
    appended: LLaVA-1.5's ends with ``ASSISTANT:`` and sets an answer off by a space.
    """

    messages: list[Message]

    def __new__(cls, text: str, messages: list[Message]) -> "ChatPrompt":
        self = super().__new__(cls, text)
        self.messages = messages
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatPrompt, (str(self), self.messages)


class WithChatPrompts:
    """Before one of lm-eval's model classes: its prompts are `ChatPrompt`.

    NAME: of the model class that has them.
    """

    NAME: ClassVar[str]

    @property
    def tokenizer_name(self) -> str:
        """Names the requests in lm-eval's request cache; those of the parent class have no `ChatPrompt`."""
        return f"{super().tokenizer_name}-{self.NAME}"

    def apply_chat_template(self, chat_history: list[Message], add_generation_prompt: bool = True) -> str:
        """As the parent renders it; a prompt that an answer follows keeps its messages."""
        messages = deepcopy(chat_history)  # the parent writes content lists into them
        text = super().apply_chat_template(messages, add_generation_prompt)
        return ChatPrompt(text, messages) if add_generation_prompt else text


class HFVLMRanker(WithChatPrompts, HFMultimodalLM):
    """`HFMultimodalLM` that answers ``loglikelihood`` through `CandidateRanker`.

    It takes the same arguments, and ``ranking_path`` (`CandidateRanker`'s ``path``). With ``--apply_chat_template``
    messages are rendered by the model's chat template, without it a prompt is image placeholders and text. Then images
    that a task hands over as a clip are a video, where processor and template take one. Generation is the parent's, for
    clips that of lmms-eval's ``hf_vlm``; a prompt which does not fit is an error and never cut. Responses in
    ``--use_cache`` serve the same weights and arguments only. Images are read, and questions and batches encoded, in
    ``workers`` threads ahead of the model: by default as many as this process has cores, at most 16.
    """

    NAME = NAME

    def __init__(
        self, pretrained: str, *args: Any, ranking_path: str = AUTO, workers: int | None = None, **kwargs: Any
    ) -> None:
        check_arguments(NAME, kwargs, HFVLMRanker, HFMultimodalLM, HFLM, is_open=True)
        loading = {name: kwargs[name] for name in ("revision", "trust_remote_code") if name in kwargs}
        load_config(NAME, pretrained, **loading)
        self._workers = num_workers(workers)
        super().__init__(pretrained, *args, **kwargs)
        self._chat_ranker = CandidateRanker(self.model, self.processor, path=ranking_path)
        self._plain_ranker = CandidateRanker(self.model, self.processor, apply_chat_template=False, path=ranking_path)
        self._generator = AnswerGenerator(self.model, self.processor)
        self._processors = ThreadCopies(self.processor)
        self._next_batch: dict[str, Any] | None = None
        weights = weights_version(str(pretrained), getattr(self.model.config, "_commit_hash", None))
        settings = {
            name: folder_version(value) or str(value)
            for name, value in sorted(kwargs.items())
            if name not in WITHOUT_EFFECT
        }
        self._identity = f"{weights} ranking {RANKING_VERSION} {ranking_path} {settings}"
        self._ledger: PathLedger | None = None

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """Called with ``--use_cache``: binds its keys to this model, and takes no path again that failed there."""
        super().set_cache_hook(cache_hook)
        if cache_hook.dbdict is None:
            return
        self._ledger = PathLedger(Path(cache_hook.dbdict.filename).absolute().parent, self._identity)
        failed = self._ledger.failed()
        for ranker in (self._chat_ranker, self._plain_ranker):
            ranker.exclude(failed)
        response_cache.bind(" without ".join([self._identity, *failed]))

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Sum of the log-probabilities of each continuation, nats, and whether greedy decoding gives it.

        The requests of one question, which stand together, share one pass over its images and text.

        Raises:
            RankingError: a question cannot be ranked, or is too long for the model (`ContextTooLongError`), or an
                audit failed (`PathError`): then ``--use_cache`` serves nothing that came on that path any more.
        """
        questions = [list(group) for _, group in itertools.groupby(requests, key=same_question)]
        answers: list[tuple[float, bool]] = []
        progress = tqdm(total=len(questions), desc="Ranking", unit="question", disable=disable_tqdm or self.rank != 0)

        def load(group: list[Instance]) -> tuple[CandidateRanker, EncodedQuestion, int]:
            ranker = self._chat_ranker if isinstance(group[0].args[0], ChatPrompt) else self._plain_ranker
            messages, question_id = self._load(group[0])
            candidates = list(dict.fromkeys(request.args[1] for request in group))
            question = ranker.encode_ahead(messages, candidates, question_id)
            return ranker, question, num_bytes(question.inputs)

        loaded = prefetch(questions, load, self._workers, size=itemgetter(2))
        with closing(loaded), progress:
            for group, (ranker, question, _) in loaded:
                score = ranker.score_encoded if self._ledger is None else partial(self._ledger.score_encoded, ranker)
                scores = score(question)
                candidates = dict.fromkeys(request.args[1] for request in group)
                pairs = {
                    candidate: LoglikelihoodPair(score.logprob, score.is_greedy, score.num_tokens, score.use)
                    for candidate, score in zip(candidates, scores, strict=True)
                }
                for request in group:
                    answers.append(pairs[request.args[1]])
                    self.cache_hook.add_partial("loglikelihood", request.args, answers[-1])
                progress.update()
        return answers

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The parent's, which takes requests with images or without, but not both at once; and clips.

        With ``--use_cache`` answers are stored as they come. An answer to a clip is a `ShownAnswer`.
        """
        answers: dict[int, str] = {}
        kinds = [(len(request.args) > 2, self._is_clip(request)) for request in requests]
        progress = tqdm(total=len(requests), desc="Generating", disable=disable_tqdm or self.rank != 0)
        with progress:
            for kind in sorted(set(kinds)):
                chosen = [index for index, each in enumerate(kinds) if each == kind]
                generate = self._answer_clips if kind[1] else self._answer_images if kind[0] else self._answer_texts
                with closing(generate([requests[index] for index in chosen])) as generated:
                    for place, answer in generated:
                        answers[chosen[place]] = answer
                        self.cache_hook.add_partial("generate_until", requests[chosen[place]].args, answer)
                        progress.update()
        return [answers[index] for index in range(len(requests))]

    def tok_batch_multimodal_encode(
        self,
        strings: list[str],
        images: list[list[Any]],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        truncation: bool = False,
    ) -> Any:
        """The parent's, which would cut prompts that leave no room for the answer, and their images with them.

        Raises:
            ContextTooLongError: there is such a prompt.
        """
        if self._next_batch is not None:
            return on_device(self._next_batch, self.model)
        processor, bos = self.processor, self.tokenizer.bos_token
        if bos and strings[0].startswith(bos):  # a template's own; the tokenizer would set another before it
            self.processor = partial(processor, add_special_tokens=False)
        try:
            encoding = super().tok_batch_multimodal_encode(strings, images, padding_side)
        finally:
            self.processor = processor
        _check_length(encoding["input_ids"].shape[1], left_truncate_len, strings)
        return encoding

    def tok_batch_encode(
        self,
        strings: list[str],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        truncation: bool = False,
    ) -> tuple[Any, Any]:
        """The same for prompts without images."""
        ids, mask = super().tok_batch_encode(strings, padding_side)
        _check_length(ids.shape[1], left_truncate_len, strings)
        return ids, mask

    def _is_clip(self, request: Instance) -> bool:
        """Whether the images of a request are frames that the model gets as a video; one frame is an image."""
        context, _, *media = request.args
        visual = media[0]["visual"] if media else None
        is_clip = isinstance(visual, LazyImages) and visual.is_clip
        return is_clip and isinstance(context, ChatPrompt) and self._generator.takes_video

    def _answer_texts(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """The place of each request among these, and its answer, as they come."""
        for part in self._parts(len(requests)):
            answers = super().generate_until([requests[place] for place in part], disable_tqdm=True)
            yield from zip(part, answers, strict=True)

    def _answer_images(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """The same for requests with images, whose batches, those of the parent, are encoded ahead."""
        batches = [
            [part[place] for place in batch]
            for part in self._parts(len(requests))
            for batch in self._batches([requests[place].args for place in part])
        ]

        def encode(batch: list[int]) -> dict[str, Any]:
            size = (self.image_width, self.image_height, self.image_max_side)
            images = [[resize_image(image, *size) for image in load_images(requests[place])] for place in batch]
            new_tokens = requests[batch[0]].args[1].get("max_gen_toks", self.max_gen_toks)
            strings = [requests[place].args[0] for place in batch]
            with self._processors.borrow() as processor:
                encoder = copy(self)
                encoder.processor, encoder.tokenizer = processor, processor.tokenizer
                encoder._device, encoder._next_batch = torch.device("cpu"), None
                encoding = encoder.tok_batch_multimodal_encode(
                    strings, images, left_truncate_len=self.max_length - new_tokens
                )
            return ready(encoding, self.model)

        with closing(prefetch(batches, encode, self._workers, size=num_bytes)) as encoded:
            for batch, encoding in encoded:
                self._next_batch = encoding
                try:
                    answers = super().generate_until([_without_images(requests[place]) for place in batch], True)
                finally:
                    self._next_batch = None
                yield from zip(batch, answers, strict=True)

    def _parts(self, count: int) -> list[range]:
        """Requests that the parent sorts and batches together: all, or with ``--use_cache`` some at a time."""
        step = max(1, count) if self.cache_hook.dbdict is None else BATCHES_STORED * int(self.batch_size)
        return [range(start, min(start + step, count)) for start in range(0, count, step)]

    def _batches(self, arguments: list[tuple[Any, ...]]) -> list[list[int]]:
        """Which requests the parent puts into a batch."""
        lengths = [len(self.tok_encode(context)) for context, *_ in arguments]
        rows = [(context, settings, place) for place, (context, settings, *_) in enumerate(arguments)]
        collator = Collator(
            rows, lambda row: (-lengths[row[2]], row[0]), group_by="gen_kwargs", group_fn=lambda row: row[1]
        )
        return [[row[2] for row in batch] for batch in collator.get_batched(n=int(self.batch_size), batch_fn=None)]

    def _answer_clips(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """The same for requests with clips."""
        defaults = {"max_gen_toks": self.max_gen_toks}
        generated = self._generator.answers(requests, self._load, int(self.batch_size), defaults, self._workers)
        with closing(generated):
            for place, (answer, has_video) in enumerate(generated):
                yield place, ShownAnswer(answer.text, VIDEO if has_video else IMAGES)

    def _load(self, request: Instance) -> Question:
        """A request's messages with its images in their places, resized as the parent does for generation; and its id.

        May be called from several threads.
        """
        context = request.args[0]
        question_id = f"{request.task_name}/{request.doc_id}"
        shown = load_images(request)
        fps = shown.fps if isinstance(shown, Clip) else None
        size = (self.image_width, self.image_height, self.image_max_side)
        images = [resize_image(image, *size).convert("RGB") for image in list(shown)[: self.max_images]]
        messages = context.messages if isinstance(context, ChatPrompt) else [_plain_message(context)]
        places = sum(item["type"] == "image" for message in messages for item in message["content"])
        if places != len(images):
            raise RankingError(
                f"question {question_id}: {len(images)} images for {places} placeholders "
                f"{DEFAULT_IMAGE_PLACEHOLDER} in its prompt"
            )
        if len(images) > 1 and self._is_clip(request):
            return filled(messages, [{"type": "video", "video": Clip(images, fps)}]), question_id
        return filled(messages, [{"type": "image", "image": image} for image in images]), question_id


def _without_images(request: Instance) -> Instance:
    context, settings, media = request.args
    return replace(request, arguments=(context, settings, {**media, "visual": []}))


def filled(messages: list[Message], media: list[dict[str, Any]]) -> list[Message]:
    """The messages with media in the first places of images, and without the other places."""
    left = iter(media)

    def items(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
        filled = [next(left, None) if item["type"] == "image" else item for item in content]
        return [item for item in filled if item is not None]

    return [{**message, "content": items(message["content"])} for message in messages]


def _check_length(length: int, limit: int | None, prompts: list[str]) -> None:
    if limit is not None and length > limit:
        raise ContextTooLongError(
            f"{NAME}: a prompt has {length} tokens, and {limit} fit beside the answer; show it fewer or smaller images "
            "(--metadata num_frames=N or max_frames=N). It is one of: "
            + " / ".join(repr(prompt[-80:]) for prompt in prompts)
        )


def same_question(request: Instance) -> tuple[Any, ...]:
    context, _, *media = request.args
    return request.task_name, request.doc_id, context, id(media[0]["visual"]) if media else None


def _plain_message(context: str) -> Message:
    """A prompt without a chat template: all images, then the text, which is how `CandidateRanker` writes it."""
    images = _LEADING_IMAGES.match(context)[0]
    text = context[len(images) :]
    if DEFAULT_IMAGE_PLACEHOLDER in text:
        raise RankingError(
            f"{NAME}: without --apply_chat_template images stand before the text, not in: {text[:200]!r}"
        )
    content = [{"type": "image"}] * images.count(DEFAULT_IMAGE_PLACEHOLDER) + [{"type": "text", "text": text}]
    return {"role": "user", "content": content}
