"""``--model hf_vlm``: run any transformers vision-language checkpoint in lmms-eval.

It also computes likelihoods.
"""

import atexit
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from loguru import logger
from transformers import AutoModelForImageTextToText

from lmms_egoplan import process_group
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.harnesses.checkpoints import (
    check_arguments,
    check_template,
    load_config,
    weights_version,
)
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.harnesses.lmms_eval import response_cache
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.harnesses.lmms_eval.ranking_backend import RankingBackend, StreamedResponses
from lmms_egoplan.harnesses.pixels import set_budget
from lmms_egoplan.harnesses.prefetch import num_workers
from lmms_egoplan.harnesses.template_files import IN_PLAIN_TEXT, NONE
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.ranker import AUTO, RANKING_VERSION


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Arguments of the backend in ``--model_args``, except the checkpoint.

    Attributes:
        dtype: ``auto`` (the checkpoint's), ``bfloat16``, ``float16`` or ``float32``.
        device: ``cuda``, ``cuda:1`` or ``cpu``; by default, this process's accelerator or the CPU.
        device_map: As in transformers; ``auto`` spreads a model over several devices.
        attn_implementation: As in transformers; ``sdpa`` and ``eager`` allow the fastest ranking.
        max_frames_num: Maximum number of frames from a video file.
        min_pixels, max_pixels, video_min_pixels, video_max_pixels: Limits on an image and on each
        frame of a video
            (`set_budget`); by default, the processor's own.
        batch_size: Number of questions per ``generate`` call. Ranking processes one question, with
            all candidates, at a time.
        max_batch_size: Ignored; the harness passes it to every model.
        revision: The checkpoint's revision.
        trust_remote_code: Run code that comes with the checkpoint.
        score_eos: Append the end-of-turn token to every candidate.
        ranking_path: ``auto``, or the path for ranking: ``packed``, ``cached``, ``shared`` or
            ``full`` (`CandidateRanker`).
        chat_template: ``none`` asks in plain text, without the checkpoint's chat template. By
            default, a checkpoint needs one, unless its family never had one (`may_lack_template`).
        peft: Folder of an adapter for the checkpoint, as written by `save_adapter`.
        workers: Number of threads that decode frames and encode questions in advance; by default,
            one per core of this process, at most 16.
    """

    dtype: str = "auto"
    device: str | None = None
    device_map: str | None = None
    attn_implementation: str | None = None
    max_frames_num: int = 8
    min_pixels: int | None = None
    max_pixels: int | None = None
    video_min_pixels: int | None = None
    video_max_pixels: int | None = None
    batch_size: int | str = 1
    max_batch_size: int | None = None
    revision: str = "main"
    trust_remote_code: bool = False
    score_eos: bool = False
    ranking_path: str = AUTO
    chat_template: str | None = None
    peft: str | None = None
    workers: int | None = None


class HFVLM(RankingBackend):
    """lmms-eval backend based on `CandidateRanker` and transformers' ``generate``.

    Args:
        pretrained: Name or folder of any checkpoint that ``AutoModelForImageTextToText`` loads.
        arguments: See `Arguments`.
    """

    NAME = "hf_vlm"

    def __init__(self, pretrained: str, **arguments: Any) -> None:
        check_arguments(self.NAME, arguments, HFVLM, Arguments)
        chosen = Arguments(**arguments)
        loading = {"revision": chosen.revision, "trust_remote_code": chosen.trust_remote_code}
        config, processor = load_config(self.NAME, pretrained, **loading)
        pixels = set_budget(self.NAME, processor, arguments)
        has_template = uses_template(config.to_dict(), processor)
        is_applied = has_template and chosen.chat_template is None
        if chosen.chat_template not in (None, NONE):
            raise LmmsEgoplanError(
                f"{self.NAME}: chat_template must be {NONE}, got {chosen.chat_template!r}; omit it "
                "to use the checkpoint's chat template"
            )
        if is_applied:
            check_template(self.NAME, pretrained, processor, IN_PLAIN_TEXT, chosen.revision)
        elif has_template:
            logger.warning(
                f"{self.NAME}: no chat template: the questions are image placeholders "
                "and plain text"
            )
        super().__init__()
        self.accelerator = Accelerator()
        atexit.register(process_group.leave)
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes
        device = chosen.device if self._world_size == 1 else None
        self.device = torch.device(device) if device else self.accelerator.device
        if not str(chosen.batch_size).isdecimal() or int(chosen.batch_size) < 1:
            raise LmmsEgoplanError(
                f"hf_vlm: batch_size must be an integer of at least 1, got {chosen.batch_size!r}"
            )
        self.batch_size = int(chosen.batch_size)
        self._workers = num_workers(chosen.workers)
        self._model = AutoModelForImageTextToText.from_pretrained(
            pretrained,
            dtype=chosen.dtype,
            device_map=chosen.device_map or {"": self.device},
            attn_implementation=chosen.attn_implementation,
            **loading,
        ).eval()
        if chosen.peft:
            self._model = load_adapter(self._model, Path(chosen.peft).expanduser())
        self._ranker = CandidateRanker(
            self._model,
            processor,
            score_eos=bool(chosen.score_eos),
            apply_chat_template=is_applied,
            path=chosen.ranking_path,
        )
        self._generator = generator = AnswerGenerator(
            self._model, processor, apply_chat_template=is_applied
        )
        if self.batch_size == 1:
            self._ordered = ("loglikelihood", "generate_until")
        self._media = MediaLoader(int(chosen.max_frames_num), takes_video=generator.takes_video)
        config = self._model.config
        self.recorded_settings = record.settings_of(processor, self._model) | {"pixels": pixels}
        self.plain_text = record.plain_text(is_applied=is_applied, exists=has_template)
        self.loaded_model = LoadedModel(
            self.NAME, config.model_type, generator.takes_video, generator.has_system_turn
        )
        weights = weights_version(pretrained, getattr(config, "_commit_hash", None))
        adapter = f" adapter {weights_version(chosen.peft, None)}" if chosen.peft else ""
        self._identity = f"{weights}{adapter} ranking {RANKING_VERSION} pixels {json.dumps(pixels)}"
        self._ledger_identity = (
            f"{self._identity} {self._model.dtype} {config._attn_implementation}"
        )
        names = (
            "dtype",
            "attn_implementation",
            "max_frames_num",
            "score_eos",
            "ranking_path",
            "chat_template",
        )
        settings = (getattr(chosen, name) for name in names)
        self.cache_run = response_cache.cache_run(
            "hf_vlm", self._identity, *settings, self._world_size
        )

    def generate_until(self, requests: list[Instance]) -> Sequence[GenerationResult]:
        """Generate an answer to each request, greedily unless its arguments request sampling.

        Raises:
            LmmsEgoplanError: The media of a question cannot be loaded.
            ContextTooLongError: A question alone exceeds the model's positions.
        """
        return StreamedResponses(self._generate_all(requests), len(requests))

    def generate_until_multi_round(self, _requests: list[Instance]) -> list[str]:
        """Raise: the backend answers only one turn."""
        raise NotImplementedError(
            "hf_vlm does not support generate_until_multi_round: it answers only one turn; use a "
            "backend that supports dialogues"
        )

    def clean(self) -> None:
        """Release the model."""
        for name in ("_ranker", "_generator"):  # they reference the model, too
            self.__dict__.pop(name, None)
        super().clean()

    def _generate_all(
        self, requests: list[Instance]
    ) -> Generator[tuple[int, GenerationResult], None, None]:
        answers = self._generator.answers(
            requests, self._load, self._shown_of(), self.batch_size, {}, self._workers
        )
        with progress_bar(len(requests), "Generating", "question") as bar, closing(answers):
            for index, answer, _ in answers:
                bar.update()
                record.note(requests[index], tokens=answer.input_tokens)
                yield (
                    index,
                    GenerationResult(
                        answer.text, TokenCounts(answer.input_tokens, answer.output_tokens)
                    ),
                )
