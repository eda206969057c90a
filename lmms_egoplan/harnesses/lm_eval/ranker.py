"""``--model hf-vlm-ranker``: lm-eval's ``hf-multimodal``, which also ranks after images.

It returns likelihoods of continuations after images.
"""

import json
from collections import defaultdict, deque
from collections.abc import Generator
from contextlib import closing
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import Collator, resize_image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.arguments import passed_on, read_arguments
from lmms_egoplan.harnesses.checkpoints import (
    check_arguments,
    check_chat,
    folder_version,
    load_config,
    weights_version,
)
from lmms_egoplan.harnesses.generation import AnswerGenerator, num_new_tokens
from lmms_egoplan.harnesses.lm_eval.arguments import HFVLMRankerArguments
from lmms_egoplan.harnesses.lm_eval.lazy_images import load_images
from lmms_egoplan.harnesses.lm_eval.ranking_model import WITHOUT_EFFECT, RankingModel, shown_of
from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, VIDEO, ShownAnswer
from lmms_egoplan.harnesses.pixels import log_limits, set_budget
from lmms_egoplan.harnesses.prefetch import num_bytes, num_workers, prefetch
from lmms_egoplan.harnesses.weights import WeightsSource
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking import CandidateRanker, ContextTooLongError
from lmms_egoplan.ranking.question import on_device, ready
from lmms_egoplan.ranking.ranker import RANKING_VERSION
from lmms_egoplan.ranking.thread_copies import ThreadCopies

# Maximum number of batches of answers that an interrupted run can lose.
BATCHES_STORED = 16


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """How a reply ended: its number of tokens, and whether the limit on new tokens ended it.

    The number is None if unknown.
    """

    num_tokens: int | None
    truncated: bool


class HFVLMRanker(RankingModel, HFMultimodalLM):
    """`HFMultimodalLM` that answers ``loglikelihood`` with `CandidateRanker`.

    It accepts the parent's arguments and `HFVLMRankerArguments`. With ``--apply_chat_template``,
    the model's chat template renders messages, and clips are videos if processor and template
    accept video. Otherwise, a prompt consists of image placeholders and text.

    Generation works as in the parent class; for clips, as in lmms-eval's ``hf_vlm``. A prompt that
    does not fit is an error and is never truncated. ``--use_cache`` serves responses only for the
    same weights and arguments.
    """

    NAME = "hf-vlm-ranker"

    processor: Any

    def __init__(self, pretrained: str, *args: Any, **arguments: Any) -> None:
        chosen = read_arguments(HFVLMRankerArguments, self.NAME, arguments)
        kwargs = passed_on(HFVLMRankerArguments, arguments)
        check_arguments(self.NAME, kwargs, HFMultimodalLM, HFLM, is_open=True)
        loading = {
            name: kwargs[name] for name in ("revision", "trust_remote_code") if name in kwargs
        }
        config, processor = load_config(self.NAME, pretrained, **loading)
        pixels = set_budget(self.NAME, processor, asdict(chosen))  # before the weights load
        log_limits(self.NAME, pixels)
        self._workers = num_workers(chosen.workers)
        super().__init__(pretrained, *args, **kwargs)
        for part in ("image_processor", "video_processor"):
            if hasattr(processor, part):
                setattr(self.processor, part, getattr(processor, part))
        try:
            check_chat(
                self.NAME,
                str(pretrained),
                config,
                self.processor,
                loading.get("revision") or "main",
            )
        except LmmsEgoplanError as error:  # matters only with --apply_chat_template
            self._template_problem = str(error)
        takes_chat = self._template_problem is None
        ranker = partial(CandidateRanker, self.model, self.processor, path=chosen.ranking_path)
        self._rankers = {False: ranker(apply_chat_template=False, separate_candidates=False)}
        if takes_chat:
            self._rankers[True] = ranker(apply_chat_template=True)
        self._generator = AnswerGenerator(
            self.model, self.processor, apply_chat_template=takes_chat
        )
        self._takes_video = self._generator.takes_video
        self._processors = ThreadCopies(self.processor)
        self._next_batch: dict[str, Any] | None = None
        self._lengths: dict[str, int] = {}
        self._prompts: list[str] = []
        self._text_ends: defaultdict[str, deque[ReplyEnd]] = defaultdict(deque)
        self._image_ends: list[ReplyEnd] = []
        self.recorded_settings = record.settings_of(self.processor, self.model) | {"pixels": pixels}
        commit = getattr(self.model.config, "_commit_hash", None)
        self.weights_source = WeightsSource(
            str(pretrained), commit or loading.get("revision") or "main", chosen.peft
        )
        weights = weights_version(str(pretrained), commit)
        settings = {
            name: folder_version(value) or str(value)
            for name, value in sorted(kwargs.items())
            if name not in WITHOUT_EFFECT
        }
        self._identity = (
            f"{weights} ranking {RANKING_VERSION} {chosen.ranking_path} {settings} pixels "
            f"{json.dumps(pixels)}"
        )

    def generate_until(self, requests: list[Instance], **_: Any) -> list[str]:
        """Generate answers like the parent class, also for clips.

        Requests with and without images may be mixed.

        With ``--use_cache``, answers are stored as they arrive. They are `ShownAnswer`s.
        """
        answers: dict[int, str] = {}
        kinds = [(len(request.args) > 2, self._shows_video(request)) for request in requests]
        with progress_bar(len(requests), "Generating") as bar:
            for kind in sorted(set(kinds)):
                indices = [
                    index for index, request_kind in enumerate(kinds) if request_kind == kind
                ]
                has_media, has_clip = kind
                if has_clip:
                    generate = self._answer_clips
                elif has_media:
                    generate = self._answer_images
                else:
                    generate = self._answer_texts
                with closing(generate([requests[index] for index in indices])) as generated:
                    for position, answer in generated:
                        answers[indices[position]] = answer
                        self.cache_hook.add_partial(
                            "generate_until", requests[indices[position]].args, answer
                        )
                        bar.update()
        return [answers[index] for index in range(len(requests))]

    def tok_batch_multimodal_encode(
        self,
        strings: list[str],
        images: list[list[Any]],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        **_: Any,
    ) -> Any:
        """Encode like the parent class, but raise where that would truncate prompts and images.

        Raises:
            ContextTooLongError: A prompt leaves no room for the answer.
        """
        if self._next_batch is not None:
            return on_device(self._next_batch, self.model)
        processor = self.processor
        bos = self.tokenizer.bos_token
        # from the template; the tokenizer would prepend another
        if bos and strings[0].startswith(bos):
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
        **_: Any,
    ) -> tuple[Any, Any]:
        """Encode prompts without images; see `tok_batch_multimodal_encode`."""
        ids, mask = super().tok_batch_encode(strings, padding_side)
        _check_length(ids.shape[1], left_truncate_len, strings)
        self._prompts = strings
        self._lengths |= zip(strings, mask.sum(dim=1).tolist(), strict=True)
        return ids, mask

    def _model_generate(
        self, context: torch.Tensor, max_length: int, stop: list[str], **settings: Any
    ) -> torch.Tensor:
        """Generate like the parent class, and note how the replies end.

        Only those to prompts without images come here.
        """
        output = super()._model_generate(context, max_length, stop, **settings)
        for prompt, end in zip(
            self._prompts, self._ends(output, context, max_length, stop), strict=True
        ):
            self._text_ends[prompt].append(end)
        return output

    def _model_multimodal_generate(
        self, inputs: dict[str, torch.Tensor], max_length: int, stop: list[str], **settings: Any
    ) -> torch.Tensor:
        """Generate like the parent class, and note how the replies end."""
        output = super()._model_multimodal_generate(inputs, max_length, stop, **settings)
        self._image_ends = self._ends(output, inputs["input_ids"], max_length, stop)
        return output

    def _ends(
        self, output: torch.Tensor, prompt: torch.Tensor, max_length: int, stop: list[str]
    ) -> list[ReplyEnd]:
        """Return how each reply of a batch ends.

        After a stop string, tokens follow until the whole batch has ended.
        """
        limit = max_length - prompt.shape[1]
        ends = []
        for reply, num_tokens in self._generator.replies(output, prompt):
            if any(text and text in reply for text in stop):
                ends.append(ReplyEnd(None, truncated=False))
            else:
                ends.append(ReplyEnd(num_tokens, truncated=num_tokens >= limit))
        return ends

    def _answer_texts(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """Yield the index of each request and its answer, as they arrive."""
        for part in self._parts(len(requests)):
            # Groups of equal generation arguments, as in the parent's batches
            groups: dict[str, list[int]] = {}
            for index in part:
                groups.setdefault(repr(requests[index].args[1]), []).append(index)
            for group in groups.values():
                self._text_ends.clear()
                answers = super().generate_until(
                    [requests[index] for index in group], disable_tqdm=True
                )
                for index, answer in zip(group, answers, strict=True):
                    prompt = requests[index].args[0]
                    end = self._text_ends[prompt].popleft()
                    record.note(requests[index], tokens=self._lengths[prompt])
                    yield index, _ended(requests[index], answer, IMAGES, end)

    def _answer_images(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """Answer requests with images in the parent's batches, which are encoded in advance."""
        batches = []
        for part in self._parts(len(requests)):
            for batch in self._batches([requests[index].args for index in part]):
                batches.append([part[index] for index in batch])

        def encode(batch: list[int]) -> dict[str, Any]:
            size = (self.image_width, self.image_height, self.image_max_side)
            images = []
            for index in batch:
                images.append(
                    [resize_image(image, *size) for image in load_images(requests[index])]
                )
            new_tokens = requests[batch[0]].args[1].get("max_gen_toks", self.max_gen_toks)
            strings = [requests[index].args[0] for index in batch]
            with self._processors.borrow() as processor:
                encoder = copy(self)
                encoder.processor = processor
                encoder.tokenizer = processor.tokenizer
                encoder._device = torch.device("cpu")
                encoder._next_batch = None
                encoding = encoder.tok_batch_multimodal_encode(
                    strings, images, left_truncate_len=self.max_length - new_tokens
                )
            for index, mask in zip(batch, encoding["attention_mask"], strict=True):
                record.note(requests[index], tokens=int(mask.sum()))
            return ready(encoding, self.model)

        with closing(prefetch(batches, encode, self._workers, size=num_bytes)) as encoded:
            for batch, encoding in encoded:
                self._next_batch = encoding
                try:
                    answers = super().generate_until(
                        [_without_images(requests[index]) for index in batch], disable_tqdm=True
                    )
                finally:
                    self._next_batch = None
                for index, answer, end in zip(batch, answers, self._image_ends, strict=True):
                    yield index, _ended(requests[index], answer, IMAGES, end)

    def _parts(self, count: int) -> list[range]:
        """Return the indices of requests to batch together.

        These are all requests, or a few batches at a time with ``--use_cache``.
        """
        step = (
            max(1, count)
            if self.cache_hook.dbdict is None
            else BATCHES_STORED * int(self.batch_size)
        )
        return [range(start, min(start + step, count)) for start in range(0, count, step)]

    def _batches(self, arguments: list[tuple[Any, ...]]) -> list[list[int]]:
        """Return the indices of the requests in each of the parent's batches."""
        lengths = [len(self.tok_encode(context)) for context, *_ in arguments]
        rows = [
            (context, settings, index) for index, (context, settings, *_) in enumerate(arguments)
        ]
        collator = Collator(
            rows,
            lambda row: (-lengths[row[2]], row[0]),
            group_by="gen_kwargs",
            group_fn=lambda row: row[1],
        )
        batches = []
        for batch in collator.get_batched(n=int(self.batch_size), batch_fn=None):
            batches.append([index for _, _, index in batch])
        return batches

    def _answer_clips(self, requests: list[Instance]) -> Generator[tuple[int, str], None, None]:
        """Answer requests with clips."""
        defaults = {"max_gen_toks": self.max_gen_toks}
        generated = self._generator.answers(
            requests, self._load, shown_of, int(self.batch_size), defaults, self._workers
        )
        with closing(generated):
            for index, answer, has_video in generated:
                record.note(requests[index], tokens=answer.input_tokens)
                limit = num_new_tokens({**defaults, **requests[index].args[1]})
                end = ReplyEnd(answer.output_tokens, truncated=answer.output_tokens >= limit)
                yield (
                    index,
                    _ended(requests[index], answer.text, VIDEO if has_video else IMAGES, end),
                )


def _ended(request: Instance, text: str, media: str, end: ReplyEnd) -> ShownAnswer:
    """Return an answer that records its end; note the number of its tokens."""
    if end.num_tokens is not None:
        record.note(request, reply_tokens=end.num_tokens)
    counts = record.known(request.task_name, request.doc_id)
    return ShownAnswer(text, media, truncated=end.truncated, counts=counts)


def _without_images(request: Instance) -> Instance:
    context, settings, media = request.args
    return replace(request, arguments=(context, settings, {**media, "visual": []}))


def _check_length(length: int, limit: int | None, prompts: list[str]) -> None:
    if limit is not None and length > limit:
        raise ContextTooLongError(
            f"{HFVLMRanker.NAME}: a prompt has {length} tokens, but only {limit} fit together with "
            "the answer. Show fewer or smaller images (--metadata num_frames=N or max_frames=N). "
            "The prompt is one of: " + " / ".join(repr(prompt[-80:]) for prompt in prompts)
        )
