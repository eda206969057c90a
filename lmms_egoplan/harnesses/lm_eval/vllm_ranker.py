"""``--model vllm-vlm-ranker``: lm-eval's ``vllm-vlm``, which also ranks after images.

It returns likelihoods of continuations after images.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.arguments import passed_on, read_arguments
from lmms_egoplan.harnesses.checkpoints import (
    check_template,
    check_vllm_arguments,
    load_config,
    weights_version,
)
from lmms_egoplan.harnesses.generation import num_new_tokens
from lmms_egoplan.harnesses.lm_eval.arguments import PROMPT_SETTINGS, VLLMVLMRankerArguments
from lmms_egoplan.harnesses.lm_eval.ranking_model import WITHOUT_EFFECT, RankingModel, shown_of
from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, ShownAnswer
from lmms_egoplan.harnesses.lm_eval.vllm_class import vllm_vlm
from lmms_egoplan.harnesses.pixels import log_limits, set_engine_budget
from lmms_egoplan.harnesses.prefetch import num_workers
from lmms_egoplan.harnesses.requirements import require_vllm
from lmms_egoplan.harnesses.template_files import ON_VLLM
from lmms_egoplan.harnesses.vllm_generation import VLLMGenerator
from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.harnesses.weights import WeightsSource
from lmms_egoplan.ranking.engine.families import engine_note
from lmms_egoplan.ranking.engine.ranker import Engine, EngineRanker
from lmms_egoplan.ranking.engine.requests import ranking_arguments
from lmms_egoplan.ranking.question import RankingError
from lmms_egoplan.ranking.ranker import RANKING_VERSION

NAME = "vllm-vlm-ranker"

require_vllm(NAME)

_Parent: Any = vllm_vlm()


class VLLMVLMRanker(RankingModel, _Parent):
    """vLLM with the arguments of lm-eval's ``vllm-vlm``.

    `EngineRanker` ranks, and `VLLMGenerator` writes replies.

    It accepts the parent's arguments and `VLLMVLMRankerArguments`. With ``base_url``, it starts no
    engine and only ranks. The model's chat template renders messages, so ``--apply_chat_template``
    is required. A clip is shown as images.
    """

    NAME = NAME

    def __init__(self, pretrained: str, base_url: str | None = None, **arguments: Any) -> None:
        from lmms_egoplan.ranking.engine.local import LocalEngine

        chosen = read_arguments(VLLMVLMRankerArguments, NAME, {"base_url": base_url, **arguments})
        kwargs = passed_on(VLLMVLMRankerArguments, arguments)
        self._workers = num_workers(chosen.workers)
        limits = chosen.pixel_limits
        self._base_url = base_url
        loading = {
            name: kwargs[name] for name in ("revision", "trust_remote_code") if name in kwargs
        }
        if base_url is None:
            check_vllm_arguments(NAME, kwargs.keys() - WITHOUT_EFFECT, *_Parent.__mro__[:2])
        self._config, self.processor = load_config(NAME, pretrained, **loading)
        check_template(NAME, pretrained, self.processor, ON_VLLM, kwargs.get("revision") or "main")
        note = engine_note(self._config)
        engine: Engine[Any]
        if base_url is None:
            pixels, kwargs = set_engine_budget(NAME, self.processor, limits, kwargs)
            log_limits(NAME, pixels)
            super().__init__(pretrained, **ranking_arguments(kwargs))
            if self.data_parallel_size > 1:
                raise RankingError(
                    f"{NAME}: data_parallel_size must be 1; use tensor_parallel_size"
                )
            if self.lora_request is not None:
                raise RankingError(
                    f"{NAME}: remove lora_local_path, and merge the adapter into the checkpoint"
                )
            engine = LocalEngine(self.model)
        else:
            pixels = record.NOT_KNOWN
            self._prepare_prompts(kwargs)
            engine = ServedEngine(base_url, pretrained, self.tokenizer, chosen.server_wait)
        loaded = self._config if base_url is None else None
        recorded = record.settings_of(self.processor, engine, loaded)
        self.recorded_settings = recorded | {"pixels": pixels}
        ranker = EngineRanker(
            engine,
            self.processor,
            method=chosen.method,
            in_flight=chosen.in_flight,
            note=note,
        )
        self._rankers = {True: ranker}
        self._takes_video = ranker.takes_video
        self._generator: VLLMGenerator | None = None
        if base_url is None:
            batch_size = int(self.batch_size) if str(self.batch_size).isdecimal() else 1
            self._generator = VLLMGenerator(
                NAME, self.model, engine, ranker, max(chosen.in_flight, batch_size)
            )
        commit = getattr(self._config, "_commit_hash", None)
        if base_url is None:
            self.weights_source = WeightsSource(
                pretrained, commit or loading.get("revision") or "main"
            )
        weights = weights_version(pretrained, commit) + engine.description
        settings = sorted(
            (name, str(value)) for name, value in kwargs.items() if name not in WITHOUT_EFFECT
        )
        self._identity = (
            f"{weights} {NAME} ranking {RANKING_VERSION} {chosen.method} {settings} pixels "
            f"{json.dumps(pixels)}"
        )

    def _prepare_prompts(self, arguments: Mapping[str, Any]) -> None:
        """Set the parent's attributes for prompts and images, for a server."""
        TemplateLM.__init__(self)
        for name, default in PROMPT_SETTINGS.items():
            setattr(self, name, arguments.get(name, default))
        self.chat_applied = False
        self.tokenizer = self.processor.tokenizer

    def generate_until(self, requests: list[Instance], **_: Any) -> list[str]:
        """Generate an answer to each request, with the task's limit on new tokens.

        Answers are `ShownAnswer`s.

        Raises:
            ContextTooLongError: ``max_model_len`` leaves no room for a reply, or ends it before the
                task's limit.
            RankingError: A server only ranks, or ``--apply_chat_template`` is missing.
        """
        if self._generator is None:
            raise RankingError(
                f"{NAME}: with base_url it only ranks. Use --model "
                "local-chat-completions to generate answers"
            )
        for request in requests:
            self._ranker_of(request)
        defaults = {"max_gen_toks": self.max_gen_toks}
        answers: dict[int, str] = {}
        generated = self._generator.answers(requests, self._load, shown_of, defaults, self._workers)
        with closing(generated):
            for index, answer in generated:
                request = requests[index]
                limit = num_new_tokens({**defaults, **request.args[1]})
                counts = record.known(request.task_name, request.doc_id)
                is_truncated = answer.output_tokens >= limit
                answers[index] = ShownAnswer(
                    answer.text, IMAGES, truncated=is_truncated, counts=counts
                )
                self.cache_hook.add_partial("generate_until", request.args, answers[index])
        return [answers[index] for index in range(len(requests))]
