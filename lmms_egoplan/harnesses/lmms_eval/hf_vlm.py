"""``--model hf_vlm``: run any transformers vision-language checkpoint in lmms-eval.

It also computes likelihoods.
"""

import atexit
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from loguru import logger
from transformers import AutoModelForImageTextToText

from lmms_egoplan import process_group
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.harnesses.arguments import read_arguments
from lmms_egoplan.harnesses.checkpoints import (
    check_template,
    load_config,
    weights_version,
)
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.harnesses.lmms_eval import response_cache
from lmms_egoplan.harnesses.lmms_eval.arguments import HFVLMArguments
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.harnesses.lmms_eval.ranking_backend import RankingBackend, StreamedResponses
from lmms_egoplan.harnesses.pixels import log_limits, set_budget
from lmms_egoplan.harnesses.prefetch import num_workers
from lmms_egoplan.harnesses.template_files import IN_PLAIN_TEXT
from lmms_egoplan.harnesses.weights import WeightsSource
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.ranker import RANKING_VERSION


class HFVLM(RankingBackend):
    """lmms-eval backend based on `CandidateRanker` and transformers' ``generate``.

    Args:
        pretrained: Name or folder of any checkpoint that ``AutoModelForImageTextToText`` loads.
        arguments: See `HFVLMArguments`.
    """

    NAME = "hf_vlm"

    def __init__(self, pretrained: str, **arguments: Any) -> None:
        chosen = read_arguments(HFVLMArguments, self.NAME, arguments)
        loading = {"revision": chosen.revision, "trust_remote_code": chosen.trust_remote_code}
        config, processor = load_config(self.NAME, pretrained, **loading)
        pixels = set_budget(self.NAME, processor, asdict(chosen))
        log_limits(self.NAME, pixels)
        has_template = uses_template(config.to_dict(), processor)
        is_applied = has_template and chosen.chat_template is None
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
        self.batch_size = chosen.batch_size
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
            score_eos=chosen.score_eos,
            apply_chat_template=is_applied,
            path=chosen.ranking_path,
        )
        self._generator = generator = AnswerGenerator(
            self._model, processor, apply_chat_template=is_applied
        )
        if self.batch_size == 1:
            self._ordered = ("loglikelihood", "generate_until")
        self._media = MediaLoader(chosen.max_frames_num, takes_video=generator.takes_video)
        config = self._model.config
        self.recorded_settings = record.settings_of(processor, self._model) | {"pixels": pixels}
        self.plain_text = record.plain_text(is_applied=is_applied, exists=has_template)
        self.loaded_model = LoadedModel(
            self.NAME, config.model_type, generator.takes_video, generator.has_system_turn
        )
        commit = getattr(config, "_commit_hash", None)
        self.weights_source = WeightsSource(pretrained, commit or chosen.revision, chosen.peft)
        weights = weights_version(pretrained, commit)
        adapter = f" adapter {weights_version(chosen.peft, None)}" if chosen.peft else ""
        self._identity = f"{weights}{adapter} ranking {RANKING_VERSION} pixels {json.dumps(pixels)}"
        self._ledger_identity = (
            f"{self._identity} {self._model.dtype} {config._attn_implementation}"
        )
        self.cache_run = response_cache.cache_run(
            "hf_vlm",
            self._identity,
            chosen.dtype,
            chosen.attn_implementation,
            chosen.max_frames_num,
            chosen.score_eos,
            chosen.ranking_path,
            chosen.chat_template,
            self._world_size,
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
