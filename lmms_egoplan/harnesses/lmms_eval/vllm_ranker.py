"""``--model vllm_ranker``: lmms-eval's ``vllm`` backend with likelihoods of continuations behind images and clips."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import GenerationResult, Instance
from lmms_eval.api.model import lmms
from lmms_eval.models.simple.vllm import VLLM
from tqdm import tqdm

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.checkpoints import check_vllm_arguments, load_config
from lmms_egoplan.harnesses.lmms_eval import response_cache
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel, remember
from lmms_egoplan.harnesses.lmms_eval.questions import continuation, document, grouped, media_error
from lmms_egoplan.harnesses.lmms_eval.streaming import StreamedResponses
from lmms_egoplan.harnesses.memory import num_bytes
from lmms_egoplan.harnesses.prefetch import num_workers, prefetch
from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.engine.families import engine_note
from lmms_egoplan.ranking.engine.ranker import IN_FLIGHT, EngineRanker
from lmms_egoplan.ranking.engine.requests import EngineQuestion, ranking_arguments
from lmms_egoplan.ranking.engine.schedule import AUTO
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.ranking.question import PathError
from lmms_egoplan.ranking.ranker import RANKING_VERSION
from lmms_egoplan.ranking.weights import weights_version

NAME = "vllm_ranker"

# What the harness itself hands to every model.
_OF_ANY_MODEL = {"batch_size", "max_batch_size", "device"}


class VLLMRanker(VLLM):
    """The harness's ``vllm`` that answers ``loglikelihood`` through `EngineRanker`; it generates as that does.

    Args:
        model: checkpoint name or folder.
        base_url: of a running ``vllm serve`` that ranks instead, such as ``http://127.0.0.1:8000``; then processor and
            chat template of ``model`` are read here, its weights are not, and nothing is generated.
        method: ``auto``, ``forced`` or ``prompt_logprobs`` (`Schedule`).
        score_eos: add the end-of-turn token to every candidate.
        max_frames_num: most frames of a video file, where candidates are ranked.
        in_flight: questions that are ranked at once.
        workers: threads that decode frames ahead; by default as many as this process has cores, at most 16.
        kwargs: of the harness's ``vllm``, and of vLLM's ``LLM``.

    Raises:
        LmmsEgoplanError: vLLM is not installed, or it is started as several processes.
        RankingError: the server does not answer, refuses, or serves another model.
    """

    is_simple = True

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        method: str = AUTO,
        score_eos: bool = False,
        max_frames_num: int = 8,
        in_flight: int = IN_FLIGHT,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._workers = num_workers(workers)
        loading = {
            "revision": kwargs.get("revision") or "main",
            "trust_remote_code": bool(kwargs.get("trust_remote_code", False)),
        }
        if base_url is None:
            check_vllm_arguments(NAME, kwargs, VLLMRanker, VLLM)
        config, processor = load_config(NAME, model, **loading)
        note = engine_note(config)
        if base_url is None:
            self._start(model, kwargs)
        else:
            self._stand_before_a_server(sorted(kwargs.keys() - loading.keys() - _OF_ANY_MODEL))
        weights = weights_version(model, getattr(config, "_commit_hash", None))
        if base_url is None:
            from lmms_egoplan.ranking.engine.local import LocalEngine

            engine = LocalEngine(self.client)
        else:
            probe = processor.tokenizer("next step", add_special_tokens=False)["input_ids"]
            engine = ServedEngine(base_url, model, probe)
            weights += f" served as {engine.name} at {engine.where}"
        self._base_url = base_url
        self._ranker = EngineRanker(engine, processor, bool(score_eos), method, int(in_flight), note)
        self._media = MediaLoader(self._ranker.takes_video, int(max_frames_num))
        remember(LoadedModel(NAME, config.model_type, False, self._ranker.has_system_turn))
        self._identity = f"{weights} {NAME} ranking {RANKING_VERSION}"
        self._settings = sorted((name, str(value)) for name, value in kwargs.items() if name not in _OF_ANY_MODEL)
        self._ledger: PathLedger | None = None
        response_cache.resume(NAME, self._identity, method, score_eos, max_frames_num, self._settings, self._world_size)
        response_cache.bind(self)

    def _start(self, model: str, kwargs: dict[str, Any]) -> None:
        """Start vLLM in this process, or in those that it starts."""
        super().__init__(model, **ranking_arguments(kwargs))
        if self._world_size > 1 and self.tensor_parallel_size > 1:
            raise LmmsEgoplanError(
                f"{NAME}: start one process; vLLM itself starts those of "
                f"tensor_parallel_size={self.tensor_parallel_size}"
            )

    def _stand_before_a_server(self, others: list[str]) -> None:
        """Start nothing.

        Args:
            others: arguments that nobody here can heed.
        """
        if others:
            raise LmmsEgoplanError(
                f"{NAME}: remove {', '.join(others)}: with base_url, these are the server's settings"
            )
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise LmmsEgoplanError(f"{NAME}: with base_url, start one process; in_flight sets how much it asks at once")
        lmms.__init__(self)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """As the harness's ``vllm``.

        Raises:
            LmmsEgoplanError: a server only ranks.
        """
        if self._base_url is not None:
            raise LmmsEgoplanError(f"{NAME}: with base_url it only ranks. Let --model async_openai write answers")
        return super().generate_until(requests)

    def loglikelihood(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Mean token loss and greedy flag of each continuation (lmms-eval's convention: lower is better).

        As `HFVLM.loglikelihood`, with the same tokens.

        Raises:
            LmmsEgoplanError: what a question shows cannot be loaded.
            RankingError: a question cannot be ranked, or is too long for the engine (`ContextTooLongError`), or an
                audit failed (`PathError`): then ``--use_cache`` serves nothing that came on that path any more.
        """
        return StreamedResponses(self._rank_all(requests), len(requests))

    def open_cache(self, folder: Path) -> str:
        """What binds responses in ``--use_cache`` to this model; methods that failed there are not taken again."""
        self._ledger = PathLedger(folder, f"{self._identity} {self._settings}")
        failed = self._ledger.failed()
        self._ranker.exclude(failed)
        return " without ".join([self._identity, *failed])

    def _rank_all(self, requests: list[Instance]) -> Generator[GenerationResult, None, None]:
        def load(group: list[Instance]) -> tuple[EngineQuestion, list[str], int]:
            doc, question_id = document(group[0], self.task_dict)
            context, _, doc_to_visual, *_ = group[0].args
            try:
                messages = self._media.messages(context, (doc_to_visual(doc) if doc_to_visual else None) or [])
            except (OSError, ValueError) as error:
                raise media_error(question_id, error) from error
            continuations = [continuation(request, self.task_dict) for request in group]
            question = self._ranker.encode(messages, list(dict.fromkeys(continuations)), question_id)
            return question, continuations, 2 * num_bytes([message["content"] for message in messages])

        pending: list[tuple[str, list[str]]] = []

        def questions(loaded: Iterator[tuple[Any, tuple[EngineQuestion, list[str], int]]]) -> Iterator[EngineQuestion]:
            for _, (question, continuations, _) in loaded:
                pending.append((question.question_id, continuations))
                yield question

        groups = grouped(requests)
        loaded = prefetch(groups, load, self._workers, size=itemgetter(2))
        ranked = self._ranker.scores(questions(loaded))
        progress = tqdm(total=len(groups), desc="Ranking", unit="question", disable=self.rank != 0)
        with closing(loaded), closing(ranked), progress:
            try:
                for scores in ranked:
                    question_id, continuations = pending.pop(0)
                    if self._ledger is not None:
                        self._ledger.note(scores[0].use, question_id)
                    texts = {
                        text: LoglikelihoodText.encode(Loglikelihood(s.nll, s.num_tokens, s.is_greedy, use=s.use))
                        for text, s in zip(dict.fromkeys(continuations), scores, strict=True)
                    }
                    progress.update()
                    yield from (GenerationResult(texts[text]) for text in continuations)
            except PathError as error:
                if self._ledger is not None:
                    self._ledger.fail(error.paths)
                raise
