"""Run a tuning: one model, one mix of samples and one resumable folder."""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    PreTrainedModel,
    TrainerCallback,
    set_seed,
)

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.outputs import results_of
from lmms_egoplan.progress import notify
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.encoder_decoder import encoder_decoder_of
from lmms_egoplan.ranking.encoding import takes_token_types
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.adapter import adapted_layers, add_adapter, load_weights, save_adapter
from lmms_egoplan.training.checks import check_samples, check_texts, probes
from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.questions import AnswerEncoder, Questions
from lmms_egoplan.training.run_folder import SETTINGS, RunFolder
from lmms_egoplan.training.samples import Drawn, Mix, Sample
from lmms_egoplan.training.scorer import AnswerScorer
from lmms_egoplan.training.settings import TuningSettings
from lmms_egoplan.training.trainer import AnswerTrainer, in_bfloat16, training_arguments

CHOICES = 4
"""Maximum number of choices of a held-out question, as in the benchmark.

The choices are the answer and its first negatives.
"""

# Settings that do not affect the weights.
_FREE = ("workers", "check", "log_every", "save_every", "evaluate_every", "report_to")


def tune(
    model_name: str,
    mix: Mix,
    held_out: Sequence[Sample],
    settings: TuningSettings,
    out: Path,
    identity: Mapping[str, Any],
    *,
    resume: bool = False,
) -> dict[str, Any]:
    """Tune a model on a mix of samples and write the adapter into `out`.

    Args:
        model_name: Name or folder of a checkpoint that ``AutoModelForImageTextToText`` loads.
        held_out: Samples with negatives, whose choices are ranked during training.
        settings: Settings of the run. Only the fields of `TuningSettings` are used.
        out: Folder of the run and, at the end, of the adapter.
        identity: JSON values by name that identify the samples. A run resumes only with the same
            values.
        resume: Resume from the last complete checkpoint in `out`.

    Returns:
        A dictionary:

        - ``steps``: number of updates
        - ``history``: the Trainer's log of losses and held-out accuracy by update
        - ``trainable`` and ``parameters``: number of trained parameters and of all parameters
        - ``joining``: names of modules that were trained whole
        - ``adapted``: number of layers with LoRA, by layer name
        - ``shares``: shares of the parts among the seen samples
        - ``answer_passes``: ``shared`` or ``separate``
        - ``device``, ``precision``, ``processes``
        - ``seconds``: training time, without work lost in an interruption

    Raises:
        LmmsEgoplanError: The folder belongs to another run. It contains a run and `resume` is
            false, or no run and `resume` is true. The mix is empty. A sample cannot be read or
            encoded, or does not fit the model. The settings do not fit the model or the processes.
        OSError: The folder cannot be written.
    """
    steps = settings.steps or max(1, settings.epochs * mix.epoch_length // settings.batch_size)
    arguments = training_arguments(settings, out / "checkpoints", steps, evaluates=bool(held_out))
    state = PartialState()
    _check_resume(out, resume=resume)
    state.wait_for_everyone()
    set_seed(settings.seed)
    precision = torch.bfloat16 if in_bfloat16(settings) else torch.float32
    processor = AutoProcessor.from_pretrained(model_name)
    seen = _seen_samples(mix, held_out)
    config = AutoConfig.from_pretrained(model_name)
    template = {"apply_chat_template": uses_template(config.to_dict(), processor)}
    check_texts(AnswerEncoder(processor, is_encoder_decoder=False, **template), seen)
    base = AutoModelForImageTextToText.from_pretrained(
        model_name, dtype=precision, attn_implementation=settings.attn_implementation
    )
    base.to(arguments.device)
    parts = find_parts(base)
    encoder = _answer_encoder(base, processor, template)
    scorer = AnswerScorer(base, way=settings.answer_passes)
    scorer.check(processor, *probes(encoder, seen))
    if settings.check:
        check_samples(encoder, seen, settings.workers, state.process_index, state.num_processes)
    shared = settings.model_dump(mode="json", include={*TuningSettings.model_fields})
    run = {"model": model_name, **identity, **shared, "proportions": mix.shares}
    with state.main_process_first():
        folder = RunFolder(
            out, run, free=_FREE, resume="use its settings and files again, with --resume"
        )
        last, seconds = folder.last_checkpoint()
    if last is not None:
        notify(f"Resuming from {last}")
    arguments.eval_on_start = last is None and bool(held_out)
    tuned = add_adapter(base, settings.lora)
    adapted = adapted_layers(tuned)
    if settings.lora:
        layers = ", ".join(f"{count} {name}" for name, count in adapted.items())
        notify(f"LoRA on {sum(adapted.values())} layers: {layers}")
    scorer = AnswerScorer(tuned.get_base_model(), parts.encoders, scorer.way)
    if settings.gradient_checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
    start = time.monotonic() - seconds
    trainer = AnswerTrainer(
        scorer,
        arguments,
        Questions(mix, encoder, steps * settings.batch_size, with_negatives=settings.contrastive),
        settings.contrastive_group,
        [partial(_held_out_question, encoder, sample) for sample in held_out],
        partial(save_adapter, tuned),
        partial(load_weights, tuned),
        [_Checkpoints(folder, start)],
    )
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    seconds = round(time.monotonic() - start, 1)
    history = trainer.state.log_history
    if state.is_main_process:
        with results_of(out) as results:
            save_adapter(tuned, results)
            processor.save_pretrained(results)
            write_whole(results / "history.json", json.dumps(history, indent=1) + "\n")
    state.wait_for_everyone()
    return {
        "steps": steps,
        "history": history,
        "trainable": sum(p.numel() for p in tuned.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in base.parameters()),
        "joining": parts.joining,
        "adapted": adapted,
        "shares": mix.shares,
        "answer_passes": scorer.way,
        "device": arguments.device.type,
        "precision": str(precision).removeprefix("torch."),
        "processes": arguments.world_size,
        "seconds": seconds,
    }


def _check_resume(out: Path, *, resume: bool) -> None:
    """Raise if the folder contains a run that is not resumed, or if there is nothing to resume."""
    has_run = (out / SETTINGS).exists()
    if has_run and not resume:
        raise LmmsEgoplanError(
            f"{out}: already contains a run; resume it with --resume, or use another --out"
        )
    if resume and not has_run:
        raise LmmsEgoplanError(
            f"{out}: nothing to resume here; drop --resume, or pass the run's folder"
        )


def _seen_samples(mix: Mix, held_out: Sequence[Sample]) -> list[Sequence[Sample]]:
    """Return the samples of each part of the mix, and those held out if there are any."""
    seen: list[Sequence[Sample]] = [mix.parts[name] for name in mix.shares]
    if held_out:
        seen.append(held_out)
    return seen


def _answer_encoder(
    model: PreTrainedModel, processor: Any, template: Mapping[str, bool]
) -> AnswerEncoder:
    """Create the encoder of a model's questions and answers."""
    is_encoder_decoder = encoder_decoder_of(model) is not None
    positions = None
    if not is_encoder_decoder:
        text_config = model.config.get_text_config(decoder=True)
        positions = getattr(text_config, "max_position_embeddings", None)
    return AnswerEncoder(
        processor,
        is_encoder_decoder=is_encoder_decoder,
        positions=positions,
        token_types=takes_token_types(model),
        **template,
    )


class _Checkpoints(TrainerCallback):
    """Mark checkpoints as complete."""

    def __init__(self, folder: RunFolder, start: float) -> None:
        self._folder = folder
        self._start = start

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Mark the checkpoint that was just written."""
        if state.is_world_process_zero:
            self._folder.complete(
                state.global_step, state.global_step, time.monotonic() - self._start
            )


def _held_out_question(encoder: AnswerEncoder, sample: Sample) -> EncodedQuestion:
    return encoder.encode_choices(
        Drawn(sample, 0, None), [sample.turns[0][1], *sample.negatives[: CHOICES - 1]]
    )
