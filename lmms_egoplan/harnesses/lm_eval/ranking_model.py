"""Share code of this package's lm-eval models.

They compute and cache likelihoods of continuations after images.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

from lm_eval.api import model as harness
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER
from lm_eval.models.utils import resize_image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages, load_images
from lmms_egoplan.harnesses.rank import Ranker, RequestReader, rank
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.media.messages import rgb
from lmms_egoplan.ranking.audits import PathLedger
from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.loglikelihood import LoglikelihoodPair
from lmms_egoplan.ranking.question import RankingError
from lmms_egoplan.sharing import media_key

# Arguments that do not affect answers.
WITHOUT_EFFECT = {"batch_size", "max_batch_size", "device"}

_LEADING_IMAGES = re.compile(rf"(?:\s*{DEFAULT_IMAGE_PLACEHOLDER})*")


class ChatPrompt(str):
    """A rendered chat prompt with its original messages.

    The messages have ``{"type": "image"}`` for each image.

    The messages are needed to render a candidate as the assistant's turn. Appending it to the
    prompt is not always correct: LLaVA-1.5's prompt ends with ``ASSISTANT:``, and its template adds
    a space before the answer.
    """

    messages: list[Message]

    def __new__(cls, text: str, messages: list[Message]) -> "ChatPrompt":
        """Create a prompt from its text and its messages."""
        self = super().__new__(cls, text)
        self.messages = messages
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatPrompt, (str(self), self.messages)


class RankingModel(harness.TemplateLM):
    """An lm-eval model class with `ChatPrompt`, and with ``loglikelihood`` computed by a ranker.

    Attributes:
        NAME: The model's name in the harness.
        _rankers: Rankers for chat prompts (True) and plain prompts (False).
        _template_problem: Why the checkpoint's chat template cannot be applied; None if it can.
        _takes_video: Whether the model accepts clips as videos.
        _workers: Number of threads that read and encode in advance.
        _identity: Identifies the model, its settings and the version of the ranking.
        _ledger: Record of the ranking paths, if responses are cached.
        cache_identity: Identifies the model and its paths in the keys of cached responses.
        interleave: The parent's: whether images stay at their places in the text.
    """

    NAME: ClassVar[str]

    _rankers: dict[bool, Ranker]
    _template_problem: str | None = None
    _takes_video: bool
    _workers: int
    _identity: str
    _ledger: PathLedger | None = None
    cache_identity: str
    interleave: bool

    @property
    def tokenizer_name(self) -> str:
        """Name for lm-eval's request cache.

        It differs from the parent's, whose requests have no `ChatPrompt`.
        """
        return f"{super().tokenizer_name}-{self.NAME}"

    def apply_chat_template(
        self, chat_history: list[Message], *, add_generation_prompt: bool = True
    ) -> str:
        """Render messages like the parent class. A prompt for generation keeps its messages.

        Raises:
            LmmsEgoplanError: The chat template is missing, or has no placeholder for images.
        """
        if self._template_problem is not None:
            raise LmmsEgoplanError(self._template_problem)
        messages = deepcopy(chat_history)  # the parent modifies them
        # If it interleaves, an empty turn has no items, and some templates read the first item.
        interleave = self.interleave
        self.interleave = self.interleave and all(turn["content"] for turn in messages)
        text = super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        self.interleave = interleave
        return ChatPrompt(text, messages) if add_generation_prompt else text

    def set_cache_hook(self, cache_hook: harness.CacheHook) -> None:
        """Bind the keys of ``--use_cache`` to this model.

        Exclude paths that failed in earlier runs.
        """
        super().set_cache_hook(cache_hook)
        if cache_hook.dbdict is not None:
            self._ledger = PathLedger(
                Path(cache_hook.dbdict.filename).absolute().parent, self._identity
            )
            exclude = [ranker.exclude for ranker in self._rankers.values()]
            self.cache_identity = self._ledger.exclude_failed(self._identity, *exclude)

    def loglikelihood(self, requests: list[Instance], **_: Any) -> list[tuple[float, bool]]:
        """Return each continuation's log-probability and whether greedy decoding produces it.

        The log-probability is the sum over the tokens, nats.

        Consecutive requests of one question share one pass over its images and text.

        Raises:
            RankingError: A question cannot be ranked, is too long for the model
                (`ContextTooLongError`), or failed an audit (`PathError`). After a failed audit,
                ``--use_cache`` no longer serves responses from that path.
        """
        answers: dict[int, tuple[float, bool]] = {}
        reader = RequestReader(
            load=self._load,
            question_of=_question_of,
            shown_of=shown_of,
            candidate_of=lambda request: request.args[1],
        )
        for ranker, run in itertools.groupby(requests, key=self._ranker_of):
            part = [*run]
            first = len(answers)
            ranked = rank(part, ranker, reader, workers=self._workers, ledger=self._ledger)
            with closing(ranked):
                for index, score in ranked:
                    request = part[index]
                    counts = record.known(request.task_name, request.doc_id)
                    pair = LoglikelihoodPair(
                        score.logprob, score.is_greedy, score.num_tokens, score.use, counts
                    )
                    answers[first + index] = pair
                    self.cache_hook.add_partial("loglikelihood", request.args, pair)
        return [answers[index] for index in range(len(requests))]

    def forget_incomplete(self, requests: Sequence[Instance]) -> None:
        """Remove a question's cached responses if others are missing, so that it is ranked whole.

        An interrupted run leaves such questions. In half precision, a candidate's loss may depend
        on the others.

        Args:
            requests: All requests of a run, also those with cached responses.
        """
        responses = self.cache_hook.dbdict
        for _, question in itertools.groupby(requests, key=_question_of):
            keys = {harness.hash_args("loglikelihood", request.args) for request in question}
            cached = [key for key in keys if key in responses]
            for key in cached if len(cached) < len(keys) else ():
                del responses[key]

    def _ranker_of(self, request: Instance) -> Ranker:
        ranker = self._rankers.get(isinstance(request.args[0], ChatPrompt))
        if ranker is None:
            question_id = f"{request.task_name}/{request.doc_id}"
            raise RankingError(f"question {question_id}: {self.NAME} needs --apply_chat_template")
        return ranker

    def _shows_video(self, request: Instance) -> bool:
        """Return whether the model gets a request's images as a video.

        A single frame is always an image.
        """
        context, _, *media = request.args
        visual = media[0]["visual"] if media else None
        is_clip = isinstance(visual, LazyImages) and visual.is_clip
        return is_clip and isinstance(context, ChatPrompt) and self._takes_video

    def _load(self, request: Instance) -> Question:
        """Return a request's messages with images, and its ID. Thread-safe.

        Images are resized as in the parent class.
        """
        context = request.args[0]
        question_id = f"{request.task_name}/{request.doc_id}"
        visuals = load_images(request)
        fps = visuals.fps if isinstance(visuals, Clip) else None
        size = (self.image_width, self.image_height, self.image_max_side)
        images = [rgb(resize_image(image, *size)) for image in list(visuals)[: self.max_images]]
        messages = (
            context.messages if isinstance(context, ChatPrompt) else [self._plain_message(context)]
        )
        num_placeholders = sum(
            item["type"] == "image" for message in messages for item in message["content"]
        )
        if num_placeholders != len(images):
            raise RankingError(
                f"question {question_id}: {len(images)} images, but {num_placeholders} "
                f"placeholders {DEFAULT_IMAGE_PLACEHOLDER} in its prompt"
            )
        if len(images) > 1 and self._shows_video(request):
            return _filled(messages, [{"type": "video", "video": Clip(images, fps)}]), question_id
        return _filled(
            messages, [{"type": "image", "image": image} for image in images]
        ), question_id

    def _plain_message(self, context: str) -> Message:
        """Convert a prompt without a chat template to a message.

        As in a ranker, all images come first, then the text.
        """
        match = _LEADING_IMAGES.match(context)
        images = match[0] if match else ""
        text = context[len(images) :]
        if DEFAULT_IMAGE_PLACEHOLDER in text:
            raise RankingError(
                f"{self.NAME}: without --apply_chat_template, all images must come before the "
                f"text. Add this option, or move the images in: {text[:200]!r}"
            )
        content = [{"type": "image"}] * images.count(DEFAULT_IMAGE_PLACEHOLDER) + [
            {"type": "text", "text": text}
        ]
        return {"role": "user", "content": content}


def _question_of(request: Instance) -> tuple[Any, ...]:
    """Return a key that is equal for consecutive requests about the same question."""
    context, _, *media = request.args
    return request.task_name, request.doc_id, context, id(media[0]["visual"]) if media else None


def shown_of(request: Instance) -> Any:
    """Return the key of the question whose media a request shows."""
    return media_key(request.doc, (request.task_name, request.doc_id))


def _filled(messages: list[Message], media: list[dict[str, Any]]) -> list[Message]:
    """Replace the first image placeholders in messages with media, and remove the others."""
    remaining = iter(media)

    def items(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
        filled = [next(remaining, None) if item["type"] == "image" else item for item in content]
        return [item for item in filled if item is not None]

    return [{**message, "content": items(message["content"])} for message in messages]


_attribute = harness.CachingLM.__getattr__


def _cached_attribute(cached: harness.CachingLM, name: str) -> Any:
    """Return an attribute of a model with ``--use_cache``.

    Its questions are ranked whole. The counts of questions whose responses come from the cache are
    noted.
    """
    attribute = _attribute(cached, name)
    if name not in ("loglikelihood", "generate_until") or not isinstance(cached.lm, RankingModel):
        return attribute

    def respond(requests: list[Instance]) -> list[Any]:
        with _bound_keys(cached.lm.cache_identity):
            if name == "loglikelihood":
                cached.lm.forget_incomplete(requests)
            responses = attribute(requests)
        for request, response in zip(requests, responses, strict=True):
            record.note(request, **getattr(response, "counts", {}))
        return responses

    return respond


harness.CachingLM.__getattr__ = _cached_attribute


@contextmanager
def _bound_keys(identity: str) -> Iterator[None]:
    """Add a model's identity to the keys of ``--use_cache`` while it responds.

    Otherwise, these depend only on the request.
    """
    hash_args = harness.hash_args

    @functools.wraps(hash_args)
    def hash_bound(attr: str, args: Iterable[Any]) -> str:
        return hash_args(attr, [*args, identity])

    harness.hash_args = hash_bound
    try:
        yield
    finally:
        harness.hash_args = hash_args
