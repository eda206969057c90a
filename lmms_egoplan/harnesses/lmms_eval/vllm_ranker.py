"""``--model vllm_ranker``: lmms-eval's ``vllm`` backend, which also ranks.

It returns likelihoods of continuations after images and clips.
"""

import json
import os
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.simple.vllm import VLLM

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.arguments import passed_on, read_arguments
from lmms_egoplan.harnesses.checkpoints import (
    check_template,
    check_vllm_arguments,
    load_config,
    weights_version,
)
from lmms_egoplan.harnesses.lmms_eval import response_cache
from lmms_egoplan.harnesses.lmms_eval.arguments import VLLMRankerArguments
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.harnesses.lmms_eval.ranking_backend import RankingBackend, StreamedResponses
from lmms_egoplan.harnesses.pixels import log_limits, set_engine_budget
from lmms_egoplan.harnesses.prefetch import num_workers
from lmms_egoplan.harnesses.template_files import ON_VLLM
from lmms_egoplan.harnesses.vllm_generation import VLLMGenerator
from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.harnesses.weights import WeightsSource
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.engine.families import engine_note
from lmms_egoplan.ranking.engine.ranker import Engine, EngineRanker
from lmms_egoplan.ranking.engine.requests import ranking_arguments
from lmms_egoplan.ranking.ranker import RANKING_VERSION

# Arguments that the harness passes to every model.
_COMMON_ARGUMENTS = {"batch_size", "max_batch_size", "device"}


class VLLMRanker(RankingBackend, VLLM):
    """vLLM with the arguments of the harness's ``vllm``.

    `EngineRanker` ranks, and `VLLMGenerator` writes replies.

    Args:
        model: Name or folder of the checkpoint.
        base_url: URL of a running ``vllm serve`` that ranks instead, such as
            ``http://127.0.0.1:8000``. This process then reads only the processor and chat template
            of `model`, not its weights. It cannot generate.
        arguments: See `VLLMRankerArguments`; also those of the harness's ``vllm`` and of vLLM's
            ``LLM``. Replies are written concurrently for ``in_flight`` questions, or for
            ``batch_size`` if that is more.

    Raises:
        LmmsEgoplanError: vLLM is not installed, an argument has no effect, or the command was
            started as several processes.
        RankingError: The server does not answer, rejects the request, or serves another model.
    """

    NAME = "vllm_ranker"
    _ordered = ("loglikelihood", "generate_until")

    def __init__(self, model: str, base_url: str | None = None, **arguments: Any) -> None:
        chosen = read_arguments(VLLMRankerArguments, self.NAME, {"base_url": base_url, **arguments})
        kwargs = passed_on(VLLMRankerArguments, arguments)
        self._workers = num_workers(chosen.workers)
        limits = chosen.pixel_limits
        loading = {
            "revision": kwargs.get("revision") or "main",
            "trust_remote_code": bool(kwargs.get("trust_remote_code", False)),
        }
        if base_url is None:
            check_vllm_arguments(self.NAME, kwargs, VLLM)
        config, processor = load_config(self.NAME, model, **loading)
        check_template(self.NAME, model, processor, ON_VLLM, kwargs.get("revision") or "main")
        note = engine_note(config)
        engine: Engine[Any]
        if base_url is None:
            pixels, kwargs = set_engine_budget(self.NAME, processor, limits, kwargs)
            log_limits(self.NAME, pixels)
            engine = self._start(model, kwargs)
            if self.chat_template is not None:
                processor.chat_template = self.chat_template
        else:
            pixels = record.NOT_KNOWN
            self._check_single_process()
            lmms.__init__(self)
            engine = ServedEngine(base_url, model, processor.tokenizer, chosen.server_wait)
        loaded = config if base_url is None else None
        self.recorded_settings = record.settings_of(processor, engine, loaded) | {"pixels": pixels}
        self._ranker = EngineRanker(
            engine,
            processor,
            score_eos=chosen.score_eos,
            method=chosen.method,
            in_flight=chosen.in_flight,
            note=note,
        )
        self._generator: VLLMGenerator | None = None
        if base_url is None:
            concurrent = max(chosen.in_flight, self.batch_size_per_gpu)
            self._generator = VLLMGenerator(
                self.NAME, self.client, engine, self._ranker, concurrent
            )
        self._media = MediaLoader(chosen.max_frames_num, takes_video=self._ranker.takes_video)
        self.loaded_model = LoadedModel(
            self.NAME,
            config.model_type,
            takes_video=False,
            has_system_turn=self._ranker.has_system_turn,
        )
        commit = getattr(config, "_commit_hash", None)
        if base_url is None:
            self.weights_source = WeightsSource(model, commit or str(loading["revision"]))
        weights = weights_version(model, commit) + engine.description
        self._identity = (
            f"{weights} {self.NAME} ranking {RANKING_VERSION} pixels {json.dumps(pixels)}"
        )
        settings = sorted(
            (name, str(value)) for name, value in kwargs.items() if name not in _COMMON_ARGUMENTS
        )
        self._ledger_identity = f"{self._identity} {settings}"
        self.cache_run = response_cache.cache_run(
            self.NAME,
            self._identity,
            chosen.method,
            chosen.score_eos,
            chosen.max_frames_num,
            settings,
            self._world_size,
        )

    def generate_until(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Generate an answer to each request.

        The task limits the new tokens, and the messages are those of `HFVLM`.

        Raises:
            ContextTooLongError: ``max_model_len`` leaves no room for a reply, or ends it before the
                task's limit.
            LmmsEgoplanError: A server only ranks.
        """
        if self._generator is None:
            raise LmmsEgoplanError(
                f"{self.NAME}: with base_url it only ranks. Use --model async_openai to "
                "generate answers"
            )
        return StreamedResponses(self._generate_all(requests, self._generator), len(requests))

    def _generate_all(
        self, requests: list[Instance], generator: VLLMGenerator
    ) -> Generator[tuple[int, GenerationResult], None, None]:
        with closing(
            generator.answers(requests, self._load, self._shown_of(), {}, self._workers)
        ) as answers:
            for index, answer in answers:
                yield (
                    index,
                    GenerationResult(
                        answer.text, TokenCounts(answer.input_tokens, answer.output_tokens)
                    ),
                )

    def _start(self, model: str, kwargs: dict[str, Any]) -> Engine[Any]:
        """Start vLLM in this process, or in the processes that it starts."""
        from lmms_egoplan.ranking.engine.local import LocalEngine

        super().__init__(model, **ranking_arguments(kwargs))
        if self._world_size > 1 and self.tensor_parallel_size > 1:
            raise LmmsEgoplanError(
                f"{self.NAME}: start one process; vLLM itself starts those of "
                f"tensor_parallel_size={self.tensor_parallel_size}"
            )
        return LocalEngine(self.client)

    def _check_single_process(self) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise LmmsEgoplanError(
                f"{self.NAME}: with base_url, start one process; in_flight sets the "
                "number of concurrent questions"
            )
