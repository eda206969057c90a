"""``--model vllm-vlm-ranker``: lm-eval's ``vllm-vlm`` with likelihoods of continuations behind images."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, TemplateLM
from lm_eval.models.utils import resize_image
from tqdm import tqdm

from lmms_egoplan.harnesses.checkpoints import check_vllm_arguments, load_config
from lmms_egoplan.harnesses.lm_eval import response_cache
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages, load_images
from lmms_egoplan.harnesses.lm_eval.ranker import WITHOUT_EFFECT, ChatPrompt, WithChatPrompts, filled, same_question
from lmms_egoplan.harnesses.lm_eval.vllm_class import vllm_vlm
from lmms_egoplan.harnesses.memory import num_bytes
from lmms_egoplan.harnesses.prefetch import num_workers, prefetch
from lmms_egoplan.harnesses.requirements import require_vllm
from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.ranking.engine.families import engine_note
from lmms_egoplan.ranking.engine.ranker import IN_FLIGHT, EngineRanker
from lmms_egoplan.ranking.engine.requests import EngineQuestion, ranking_arguments
from lmms_egoplan.ranking.engine.schedule import AUTO
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.loglikelihood import LoglikelihoodPair
from lmms_egoplan.ranking.question import PathError, RankingError
from lmms_egoplan.ranking.ranker import RANKING_VERSION
from lmms_egoplan.ranking.weights import weights_version

NAME = "vllm-vlm-ranker"

require_vllm(NAME)


class VLLMVLMRanker(WithChatPrompts, vllm_vlm()):
    """lm-eval's ``vllm-vlm`` that answers ``loglikelihood`` through `EngineRanker`; it generates as that does.

    It takes the same arguments, and ``method``, ``in_flight``, ``workers`` and ``base_url`` as lmms-eval's
    ``vllm_ranker``; with ``base_url`` it starts nothing, and only ranks. Messages are rendered by the model's chat
    template: ``--apply_chat_template`` is required. A clip is shown as images.
    """

    NAME = NAME

    def __init__(
        self,
        pretrained: str,
        base_url: str | None = None,
        method: str = AUTO,
        in_flight: int = IN_FLIGHT,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        from lmms_egoplan.ranking.engine.local import LocalEngine

        self._workers = num_workers(workers)
        self._base_url = base_url
        served = ""
        loading = {name: kwargs[name] for name in ("revision", "trust_remote_code") if name in kwargs}
        if base_url is None:
            check_vllm_arguments(NAME, kwargs.keys() - WITHOUT_EFFECT, VLLMVLMRanker, *vllm_vlm().__mro__[:2])
        self._config, self.processor = load_config(NAME, pretrained, **loading)
        note = engine_note(self._config)
        if base_url is None:
            super().__init__(pretrained, **ranking_arguments(kwargs))
            if self.data_parallel_size > 1:
                raise RankingError(f"{NAME}: data_parallel_size must be 1; use tensor_parallel_size")
            engine = LocalEngine(self.model)
        else:
            self._stand_before_a_server(**kwargs)
            probe = self.tokenizer("next step", add_special_tokens=False)["input_ids"]
            engine = ServedEngine(base_url, pretrained, probe)
            served = f" served as {engine.name} at {engine.where}"
        self._ranker = EngineRanker(engine, self.processor, method=method, in_flight=int(in_flight), note=note)
        weights = weights_version(pretrained, getattr(self._config, "_commit_hash", None)) + served
        settings = sorted((name, str(value)) for name, value in kwargs.items() if name not in WITHOUT_EFFECT)
        self._identity = f"{weights} {NAME} ranking {RANKING_VERSION} {method} {settings}"
        self._ledger: PathLedger | None = None

    def _stand_before_a_server(
        self,
        trust_remote_code: bool = False,
        revision: str | None = None,
        interleave: bool = True,
        max_images: int = 999,
        image_width: int | None = None,
        image_height: int | None = None,
        image_max_side: int | None = None,
        **others: Any,
    ) -> None:
        """Of what the parent prepares, what a prompt and its images need."""
        if unheeded := sorted(others.keys() - WITHOUT_EFFECT):
            raise RankingError(f"{NAME}: with base_url, remove {', '.join(unheeded)}, which the server sets")
        TemplateLM.__init__(self)
        self.interleave, self.max_images, self.chat_applied = interleave, max_images, False
        self.image_width, self.image_height, self.image_max_side = image_width, image_height, image_max_side
        self.tokenizer = self.processor.tokenizer

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """As the parent.

        Raises:
            RankingError: a server only ranks.
        """
        if self._base_url is not None:
            raise RankingError(f"{NAME}: with base_url it only ranks. Let --model local-chat-completions write answers")
        return super().generate_until(requests, disable_tqdm)

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """Called with ``--use_cache``: binds its keys to this model, and takes no method again that failed there."""
        super().set_cache_hook(cache_hook)
        if cache_hook.dbdict is None:
            return
        self._ledger = PathLedger(Path(cache_hook.dbdict.filename).absolute().parent, self._identity)
        failed = self._ledger.failed()
        self._ranker.exclude(failed)
        response_cache.bind(" without ".join([self._identity, *failed]))

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Sum of the log-probabilities of each continuation, nats, and whether greedy decoding gives it.

        Raises:
            RankingError: a question cannot be ranked, or is too long for the engine (`ContextTooLongError`), or an
                audit failed (`PathError`): then ``--use_cache`` serves nothing that came on that path any more.
        """
        groups = [list(group) for _, group in itertools.groupby(requests, key=same_question)]
        pending: list[tuple[str, list[Instance]]] = []

        def questions(loaded: Iterator[tuple[list[Instance], tuple[EngineQuestion, int]]]) -> Iterator[EngineQuestion]:
            for group, (question, _) in loaded:
                pending.append((question.question_id, group))
                yield question

        answers: list[tuple[float, bool]] = []
        loaded = prefetch(groups, self._load, self._workers, size=itemgetter(1))
        ranked = self._ranker.scores(questions(loaded))
        progress = tqdm(total=len(groups), desc="Ranking", unit="question", disable=disable_tqdm or self.rank != 0)
        with closing(loaded), closing(ranked), progress:
            try:
                for scores in ranked:
                    question_id, group = pending.pop(0)
                    if self._ledger is not None:
                        self._ledger.note(scores[0].use, question_id)
                    pairs = {
                        text: LoglikelihoodPair(score.logprob, score.is_greedy, score.num_tokens, score.use)
                        for text, score in zip(dict.fromkeys(r.args[1] for r in group), scores, strict=True)
                    }
                    for request in group:
                        answers.append(pairs[request.args[1]])
                        self.cache_hook.add_partial("loglikelihood", request.args, answers[-1])
                    progress.update()
            except PathError as error:
                if self._ledger is not None:
                    self._ledger.fail(error.paths)
                raise
        return answers

    def _load(self, group: list[Instance]) -> tuple[EngineQuestion, int]:
        context, _, *media = group[0].args
        question_id = f"{group[0].task_name}/{group[0].doc_id}"
        if not isinstance(context, ChatPrompt):
            raise RankingError(f"question {question_id}: {NAME} needs --apply_chat_template")
        visual = media[0]["visual"] if media else ()
        size = (self.image_width, self.image_height, self.image_max_side)
        images = [resize_image(image, *size).convert("RGB") for image in list(load_images(group[0]))[: self.max_images]]
        places = sum(item["type"] == "image" for message in context.messages for item in message["content"])
        if places != len(images):
            raise RankingError(f"question {question_id}: {len(images)} images for {places} placeholders in its prompt")
        items = [{"type": "image", "image": image} for image in images]
        candidates = list(dict.fromkeys(request.args[1] for request in group))
        messages = filled(context.messages, items)
        is_clip = isinstance(visual, LazyImages) and visual.is_clip and len(images) > 1
        has_clips = is_clip and self._ranker.takes_video
        return self._ranker.encode(messages, candidates, question_id, has_clips), 2 * num_bytes(images)
