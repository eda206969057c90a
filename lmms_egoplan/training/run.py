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
    AutoProcessor,
    PreTrainedModel,
    TrainerCallback,
    set_seed,
)

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.harnesses.adapter import identity as identity_of
from lmms_egoplan.outputs import results_of
from lmms_egoplan.progress import notify
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.encoder_decoder import encoder_decoder_of
from lmms_egoplan.ranking.encoding import takes_token_types
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.adapter import adapted_layers, add_adapter, load_weights, save_adapter
from lmms_egoplan.training.base import load_base
from lmms_egoplan.training.checks import check_samples, check_texts, probes
from lmms_egoplan.training.packages import check_packages
from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.questions import AnswerEncoder, Questions
from lmms_egoplan.training.run_folder import SETTINGS, RunFolder
from lmms_egoplan.training.samples import Drawn, Mix, Sample
from lmms_egoplan.training.scorer import AnswerScorer
from lmms_egoplan.training.settings import TuningSettings
from lmms_egoplan.training.trainer import (
    AnswerTrainer,
    check_sharded,
    in_bfloat16,
    training_arguments,
)

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
        - ``best_step``: number of updates before the best evaluation, whose weights the adapter
          has; None if it has the last ones
        - ``answer_passes``: ``shared`` or ``separate``
        - ``padded``: whether questions share padded batches
        - ``device``, ``precision``, ``processes``
        - ``seconds``: training time, without work lost in an interruption

    Raises:
        LmmsEgoplanError: The folder belongs to another run. It contains a run and `resume` is
            false, or no run and `resume` is true. The mix is empty. A sample cannot be read or
            encoded, or does not fit the model. The settings do not fit the model or the processes,
            or need a package that is not installed.
        OSError: The folder cannot be written.
    """
    check_packages(settings)
    steps = settings.steps or max(1, settings.epochs * mix.epoch_length // settings.batch_size)
    arguments = training_arguments(settings, out / "checkpoints", steps, evaluates=bool(held_out))
    state = PartialState()
    _check_resume(out, resume=resume, is_sharded=bool(arguments.fsdp))
    state.wait_for_everyone()
    set_seed(settings.seed)
    precision = torch.bfloat16 if in_bfloat16(settings) else torch.float32
    processor = AutoProcessor.from_pretrained(model_name)
    seen = _seen_samples(mix, held_out)
    config = AutoConfig.from_pretrained(model_name)
    template = {"apply_chat_template": uses_template(config.to_dict(), processor)}
    check_texts(AnswerEncoder(processor, is_encoder_decoder=False, **template), seen)
    base = load_base(model_name, settings, precision, arguments.device)
    parts = find_parts(base)
    encoder = _answer_encoder(base, processor, template)
    if settings.check:
        check_samples(encoder, seen, settings.workers, state.process_index, state.num_processes)
    scorer = AnswerScorer(base, way=settings.answer_passes)
    batches = probes(encoder, seen)
    scorer.check(processor, *batches)
    if arguments.fsdp and (len(batches) > 1 or not scorer.is_padded):
        raise LmmsEgoplanError(
            "trainer.fsdp: needs the same number of passes in all processes, so samples with the "
            f"same kind of media in padded batches; found {len(batches)} kinds of media; remove "
            "trainer.fsdp, or other parts of the mix"
        )
    shared = settings.model_dump(mode="json", include={*TuningSettings.model_fields})
    run = {"model": model_name, **identity, **shared, "proportions": mix.shares}
    with state.main_process_first():
        folder = RunFolder(
            out, run, free=_free(settings), resume="use its settings and files again, with --resume"
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
    scorer = AnswerScorer(
        tuned.get_base_model(), parts.encoders, scorer.way, is_padded=scorer.is_padded
    )
    if settings.gradient_checkpointing:
        base.gradient_checkpointing_enable({"use_reentrant": False})
    start = time.monotonic() - seconds
    trainer = AnswerTrainer(
        scorer,
        arguments,
        Questions(mix, encoder, steps * settings.batch_size, with_negatives=settings.contrastive),
        settings.contrastive_group if settings.contrastive else settings.per_device_batch_size,
        [partial(_held_out_question, encoder, sample) for sample in held_out],
        partial(save_adapter, tuned, identity_of(base)),
        partial(load_weights, tuned),
        [_Checkpoints(folder, start), _Sharding(scorer)],
    )
    set_seed(settings.seed + state.process_index)  # each process has its own dropout
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    seconds = round(time.monotonic() - start, 1)
    _write_results(trainer, processor, out)
    state.wait_for_everyone()
    return {
        "steps": steps,
        "history": trainer.state.log_history,
        "trainable": sum(p.numel() for p in tuned.parameters() if p.requires_grad),
        "parameters": sum(p.numel() for p in base.parameters()),
        "joining": parts.joining,
        "adapted": adapted,
        "shares": mix.shares,
        "best_step": trainer.state.best_global_step if settings.keeps_best else None,
        "answer_passes": scorer.way,
        "padded": scorer.is_padded,
        "device": arguments.device.type,
        "precision": str(precision).removeprefix("torch."),
        "processes": arguments.world_size,
        "seconds": seconds,
    }


def _write_results(trainer: AnswerTrainer, processor: Any, out: Path) -> None:
    """Write the adapter, the processor and the log into a folder. All processes call this."""
    if not trainer.is_world_process_zero():
        trainer.save_model(str(out))  # sends this process's share of the weights, writes nothing
        return
    with results_of(out) as results:
        trainer.save_model(str(results))
        processor.save_pretrained(results)
        history = json.dumps(trainer.state.log_history, indent=1)
        write_whole(results / "history.json", history + "\n")


def _free(settings: TuningSettings) -> tuple[str, ...]:
    """Return the names of the settings that do not affect the weights."""
    if settings.keeps_best:
        return tuple(name for name in _FREE if name not in ("save_every", "evaluate_every"))
    return _FREE


def _check_resume(out: Path, *, resume: bool, is_sharded: bool) -> None:
    """Raise if the folder contains a run that is not resumed, or if a run cannot be resumed."""
    if resume and is_sharded:
        raise LmmsEgoplanError(
            "--resume: runs with trainer.fsdp cannot be resumed; train again in a new --out"
        )
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
    """Mark checkpoints as complete. Keep the last one and, if it is needed, the best one."""

    def __init__(self, folder: RunFolder, start: float) -> None:
        self._folder = folder
        self._start = start

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Find the best checkpoint of a resumed run.

        Raises:
            LmmsEgoplanError: It is damaged or missing.
        """
        if state.best_global_step is None:
            return
        best = self._folder.checkpoint(state.best_global_step)
        if not best.is_dir():
            raise LmmsEgoplanError(
                f"{best}: the best checkpoint so far is missing or was incomplete; train again in "
                "a new --out"
            )
        state.best_model_checkpoint = str(best)

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Mark the checkpoint that was just written."""
        if state.is_world_process_zero:
            best = state.best_global_step or state.global_step
            self._folder.complete(state.global_step, best, time.monotonic() - self._start)


class _Sharding(TrainerCallback):
    """Check that FSDP divides the parameters, before the first update."""

    def __init__(self, scorer: AnswerScorer) -> None:
        self._parameters = sum(parameter.numel() for parameter in scorer.parameters())

    def on_train_begin(self, args: Any, _state: Any, _control: Any, model: Any, **_: Any) -> None:
        """Raise `LmmsEgoplanError` if each process has all parameters."""
        if args.fsdp:
            check_sharded(model, self._parameters)


def _held_out_question(encoder: AnswerEncoder, sample: Sample) -> EncodedQuestion:
    return encoder.encode_choices(
        Drawn(sample, 0, None), [sample.turns[0][1], *sample.negatives[: CHOICES - 1]]
    )
