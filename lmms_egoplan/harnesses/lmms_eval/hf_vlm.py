"""``--model hf_vlm``: any transformers vision-language checkpoint in lmms-eval, likelihoods included."""

import atexit
import inspect
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.protocol import ChatMessages
from tqdm import tqdm
from transformers import AutoModelForImageTextToText

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.harnesses.checkpoints import check_arguments, load_config
from lmms_egoplan.harnesses.generation import AnswerGenerator, Question
from lmms_egoplan.harnesses.lmms_eval import response_cache
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel, remember
from lmms_egoplan.harnesses.lmms_eval.questions import continuation, document, grouped, media_error
from lmms_egoplan.harnesses.lmms_eval.streaming import StreamedResponses
from lmms_egoplan.harnesses.memory import num_bytes
from lmms_egoplan.harnesses.prefetch import num_workers, prefetch
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.ranking.ranker import AUTO, RANKING_VERSION
from lmms_egoplan.ranking.weights import weights_version


class HFVLM(lmms):
    """lmms-eval backend over `CandidateRanker` and transformers' ``generate``.

    Args:
        pretrained: checkpoint name or folder, anything ``AutoModelForImageTextToText`` loads.
        dtype: ``auto`` (the checkpoint's), ``bfloat16``, ``float16`` or ``float32``.
        device: ``cuda``, ``cuda:1``, ``cpu``; by default this process's accelerator, or the CPU.
        device_map: as transformers takes it, to spread a model over several devices (``auto``).
        attn_implementation: as transformers takes it; ``sdpa`` and ``eager`` allow the fastest ranking.
        max_frames_num: most frames of a video file.
        batch_size: questions per ``generate`` call; ranking takes a question with all candidates at a time.
        revision: the checkpoint's revision.
        trust_remote_code: run code that comes with the checkpoint.
        score_eos: add the end-of-turn token to every candidate.
        ranking_path: ``auto``, or the path that ranking takes: ``packed``, ``cached``, ``shared`` or ``full``
            (`CandidateRanker`).
        peft: folder of an adapter for the checkpoint, as `save_adapter` writes it.
        workers: threads that decode frames and encode questions ahead of the model; by default as many as this process
            has cores, at most 16.
    """

    is_simple = True
    NAME = "hf_vlm"

    def __init__(
        self,
        pretrained: str,
        dtype: str = "auto",
        device: str | None = None,
        device_map: str | None = None,
        attn_implementation: str | None = None,
        max_frames_num: int = 8,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        revision: str = "main",
        trust_remote_code: bool = False,
        score_eos: bool = False,
        ranking_path: str = AUTO,
        peft: str | None = None,
        workers: int | None = None,
        **others: Any,
    ) -> None:
        check_arguments(self.NAME, others, HFVLM)
        loading = {"revision": revision, "trust_remote_code": trust_remote_code}
        _, processor = load_config(self.NAME, pretrained, **loading)
        super().__init__()
        self.accelerator = Accelerator()
        atexit.register(_leave_processes)
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes
        alone = self._world_size == 1
        self._device = torch.device(device) if device and alone else self.accelerator.device
        if not str(batch_size).isdecimal() or int(batch_size) < 1:
            raise LmmsEgoplanError(f"hf_vlm: batch_size must be a whole number of at least 1, got {batch_size!r}")
        self.batch_size_per_gpu = int(batch_size)
        self._workers = num_workers(workers)
        self._model = AutoModelForImageTextToText.from_pretrained(
            pretrained,
            dtype=dtype,
            device_map=device_map or {"": self._device},
            attn_implementation=attn_implementation,
            **loading,
        ).eval()
        if peft:
            self._model = load_adapter(self._model, Path(peft).expanduser())
        self._ranker = CandidateRanker(self._model, processor, score_eos=bool(score_eos), path=ranking_path)
        self._generator = AnswerGenerator(self._model, processor)
        self._media = MediaLoader(self._generator.takes_video, int(max_frames_num))
        model_type = self._model.config.model_type
        remember(LoadedModel(self.NAME, model_type, self._generator.takes_video, self._generator.has_system_turn))
        weights = weights_version(pretrained, getattr(self._model.config, "_commit_hash", None))
        adapter = f" adapter {weights_version(peft, None)}" if peft else ""
        self._identity = f"{weights}{adapter} ranking {RANKING_VERSION}"
        self._ledger: PathLedger | None = None
        response_cache.resume(
            "hf_vlm",
            self._identity,
            dtype,
            attn_implementation,
            max_frames_num,
            score_eos,
            ranking_path,
            self._world_size,
        )
        response_cache.bind(self)

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def batch_size(self) -> int:
        return self.batch_size_per_gpu

    def loglikelihood(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Mean token loss and greedy flag of each continuation (lmms-eval's convention: lower is better).

        The requests of one question are ranked in one go. White space around a continuation is dropped: the chat
        template sets an answer off from its question by itself. Every text is a `LoglikelihoodText`, which the
        harness's own ``multiple_choice`` scoring can unpack (not so what comes back from its response cache).

        Raises:
            LmmsEgoplanError: what a question shows cannot be loaded.
            RankingError: a question cannot be ranked, or is too long for the model (`ContextTooLongError`), or an
                audit failed (`PathError`): then ``--use_cache`` serves nothing that came on that path any more.
        """
        return StreamedResponses(self._rank_all(requests), len(requests))

    def generate_until(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Generate an answer to each request, greedily unless its arguments ask for sampling.

        Raises:
            LmmsEgoplanError: what a question shows cannot be loaded.
            ContextTooLongError: a question alone exceeds the model's positions.
        """
        return StreamedResponses(self._generate_all(requests), len(requests))

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError(
            "hf_vlm does not support generate_until_multi_round: it answers one turn; use a backend that "
            "holds a dialogue"
        )

    def open_cache(self, folder: Path) -> str:
        """What binds responses in ``--use_cache`` to this model; paths that failed there are not taken again."""
        settings = [self._identity, str(self._model.dtype), self._model.config._attn_implementation]
        self._ledger = PathLedger(folder, " ".join(settings))
        failed = self._ledger.failed()
        self._ranker.exclude(failed)
        return " without ".join([self._identity, *failed])

    def clean(self) -> None:
        for name in ("_ranker", "_generator"):  # which hold the model, too
            vars(self).pop(name, None)
        super().clean()

    def _rank_all(self, requests: list[Instance]) -> Generator[GenerationResult, None, None]:
        questions = grouped(requests)
        ranker = self._ranker
        score = ranker.score_encoded if self._ledger is None else partial(self._ledger.score_encoded, ranker)

        def load(group: list[Instance]) -> tuple[EncodedQuestion, list[str], int]:
            messages, question_id = self._load(group[0])
            continuations = [continuation(request, self.task_dict) for request in group]
            question = ranker.encode_ahead(messages, list(dict.fromkeys(continuations)), question_id)
            return question, continuations, num_bytes(question.inputs)

        loaded = prefetch(questions, load, self._workers, size=itemgetter(2))
        with closing(loaded), self._progress(len(questions), "Ranking", "question") as progress:
            for _, (question, continuations, _) in loaded:
                scores = score(question)
                texts = {
                    candidate: LoglikelihoodText.encode(Loglikelihood(s.nll, s.num_tokens, s.is_greedy, use=s.use))
                    for candidate, s in zip(dict.fromkeys(continuations), scores, strict=True)
                }
                progress.update()
                yield from (GenerationResult(texts[continuation]) for continuation in continuations)

    def _generate_all(self, requests: list[Instance]) -> Generator[GenerationResult, None, None]:
        with self._progress(len(requests), "Generating", "question") as progress:
            answers = self._generator.answers(requests, self._load, self.batch_size, {}, self._workers)
            with closing(answers):
                for answer, _ in answers:
                    progress.update()
                    yield GenerationResult(answer.text, TokenCounts(answer.input_tokens, answer.output_tokens))

    def _load(self, request: Instance) -> Question:
        """The chat messages of a request's question, and its id. May be called from several threads."""
        context, _, doc_to_visual, *_ = request.args
        is_written = request.request_type == "generate_until"
        doc, question_id = document(request, self.task_dict)
        try:
            if is_written and (messages := self._messages_with_system(doc_to_visual, doc)):
                return messages, question_id
            visuals = doc_to_visual(doc) if doc_to_visual else None
            return self._media.messages(context, visuals or []), question_id
        except (OSError, ValueError) as error:
            raise media_error(question_id, error) from error

    def _messages_with_system(self, doc_to_visual: Any, doc: Any) -> list[dict[str, Any]] | None:
        """The chat messages that the task has for a document, where a system message is among them; else None.

        Tasks make them for the harness's chat backends. A request's text holds no turns, so it cannot tell a system
        prompt from the question.
        """
        task = getattr(doc_to_visual, "__self__", None)
        to_messages = getattr(getattr(task, "config", None), "doc_to_messages", None)
        if not callable(to_messages):
            return None
        settings, parameters = task.lmms_eval_specific_kwargs, inspect.signature(to_messages).parameters
        # The harness asks for the settings by this name; some tasks have another name for their second parameter.
        has_name = "lmms_eval_specific_kwargs" in parameters or any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
        )
        if settings is not None and has_name:
            asked = to_messages(doc, lmms_eval_specific_kwargs=settings)
        elif settings is not None and len(parameters) == 2:
            asked = to_messages(doc, settings)
        else:
            asked = to_messages(doc)
        if not any(isinstance(message, dict) and message.get("role") == "system" for message in asked or ()):
            return None
        messages = ChatMessages(messages=asked).to_hf_messages()
        for message in messages:
            message["content"] = [
                loaded
                for item in message["content"]
                for loaded in ([item] if item["type"] == "text" else self._media.items(item[item["type"]]))
            ]
        return messages

    def _progress(self, total: int, description: str, unit: str) -> tqdm:
        return tqdm(total=total, desc=description, unit=unit, disable=self.rank != 0)


def _leave_processes() -> None:
    """End gloo's threads while Python still runs: one that outlives it can abort a process whose work is done.

    The launcher then stops the other processes, of which the first may not have saved the results yet.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
