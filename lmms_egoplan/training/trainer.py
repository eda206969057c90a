"""Run the updates with transformers' Trainer.

It computes the loss of whole batches and held-out accuracy, and writes checkpoints.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch.distributed.tensor import DTensor
from torch.utils.data import SequentialSampler
from transformers import Trainer, TrainerCallback, TrainingArguments

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.loss import batch_loss
from lmms_egoplan.training.questions import Questions, collate
from lmms_egoplan.training.scorer import AnswerScorer
from lmms_egoplan.training.settings import TuningSettings
from lmms_egoplan.volumes import with_path_in_error


class AnswerTrainer(Trainer):
    """A Trainer for `AnswerScorer` that computes the loss of the whole batch.

    Gradients are accumulated over the passes and processes of a batch. Each pass contributes its
    share of the batch's loss (`batch_loss`), not the mean over its own samples. Therefore loss and
    gradients do not depend on the division, except for dropout's random numbers.

    Args:
        group: Number of samples in a group of eq. 3, a divisor of the samples in a pass.
        held_out: Questions with all choices, the right one first; empty for none.
        save: Writes the trained weights into a folder. The second argument has the trained
            weights by name if the processes share them, otherwise None.
        load: Reads the trained weights from a folder.
    """

    def __init__(
        self,
        scorer: AnswerScorer,
        args: TrainingArguments,
        questions: Questions,
        group: int,
        held_out: Sequence[Callable[[], EncodedQuestion]],
        save: Callable[[Path, Mapping[str, torch.Tensor] | None], None],
        load: Callable[[Path], None],
        callbacks: list[TrainerCallback],
    ) -> None:
        super().__init__(scorer, args, collate, questions, held_out or None, callbacks=callbacks)
        self.model_accepts_loss_kwargs = (
            True  # Trainer then does not divide the loss by the number of parts.
        )
        self._save_parts = save
        self._load_parts = load
        self._samples = 0
        self._group = group
        self._updates = 0
        self._logged = torch.zeros(4, dtype=torch.float64)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: Any
    ) -> tuple[list[Any], Any]:
        """Return the parts of the batch, and count its samples.

        Raises:
            LmmsEgoplanError: A sample cannot be read or encoded.
        """
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        for question in (question for batch in batches for question in batch["questions"]):
            if isinstance(question, str):
                raise LmmsEgoplanError(question)
        samples = sum(len(batch["questions"]) for batch in batches)
        self._samples = int(self._sum_all(torch.tensor(samples, dtype=torch.float64)).item())
        self._updates += 1
        return batches, self._samples

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], **_: Any
    ) -> torch.Tensor:
        """Return this part's share of the batch loss, times the number of processes.

        The gradients of the processes are averaged.

        Raises:
            LmmsEgoplanError: The loss is not finite.
        """
        loss = batch_loss(model(inputs["questions"]), self._group, self._samples)
        if not math.isfinite(loss.loss.item()):
            raise LmmsEgoplanError(
                f"update {self.state.global_step + 1}: the loss is {loss.loss.item()}; restart in "
                "a new --out with a smaller learning_rate"
            )
        values = [loss.nll.item(), loss.contrastive.item(), loss.violations, loss.pairs]
        self._logged += torch.tensor(values, dtype=torch.float64)
        return loss.loss * self.args.world_size

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the parts of the loss as means over updates.

        If there are pairs, add the fraction of violated ones.
        """
        if "loss" in logs:
            nll, contrastive, violations, pairs = self._sum_all(self._logged).tolist()
            logs |= {"nll": nll / self._updates, "contrastive": contrastive / self._updates}
            logs |= {"violated": violations / pairs} if pairs else {}
            self._logged.zero_()
            self._updates = 0
        super().log(logs, start_time)

    @torch.no_grad()
    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **_more: Any) -> dict[str, float]:
        """Rank the choices of the held-out questions by eq. 4.

        Returns:
            ``eval_accuracy``, the fraction of questions whose answer is more likely than every
            other choice; ``eval_nll``, the mean over answers, nats; ``eval_questions``, their
            number.
        """
        held_out = self.eval_dataset or []
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        with self.compute_loss_context_manager():
            for encode in held_out[self.args.process_index :: self.args.world_size]:
                answer, *negatives = (score.item() for score in self.model([encode()])[0])
                sums += torch.tensor([answer > max(negatives), -answer], dtype=torch.float64)
        self.model.train()
        right, nll = self._sum_all(sums).tolist()
        means = {
            "accuracy": right / len(held_out),
            "nll": nll / len(held_out),
            "questions": float(len(held_out)),
        }
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in means.items()}
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def _sum_all(self, values: torch.Tensor) -> torch.Tensor:
        if self.args.world_size == 1:
            return values.clone()
        return self.accelerator.reduce(values.to(self.args.device), "sum").cpu()

    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(train_dataset or self.train_dataset)

    def _save(
        self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None
    ) -> None:
        weights = None
        if state_dict is not None:
            weights = _gathered(state_dict)
        if self.args.should_save:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            self._save_parts(folder, weights)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        try:
            super()._save_checkpoint(model, trial)
        except Exception as error:
            if getattr(error, "filename", None):
                raise
            files = (path for path in Path(self.args.output_dir).rglob("*") if path.is_file())
            with with_path_in_error(max(files, key=lambda path: path.stat().st_mtime_ns)):
                raise

    def _load_from_checkpoint(self, resume_from_checkpoint: str, *_: Any, **_more: Any) -> None:
        self._load_parts(Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        self._load_parts(Path(str(self.state.best_model_checkpoint)))


def training_arguments(
    settings: TuningSettings, folder: Path, steps: int, *, evaluates: bool
) -> TrainingArguments:
    """Return transformers' arguments for a run of `steps` updates.

    Raises:
        LmmsEgoplanError: The batch cannot be divided among processes and passes, a ``trainer``
            argument is invalid, or the best checkpoint is to be kept without an evaluation.
    """
    if settings.keeps_best and not evaluates:
        raise LmmsEgoplanError(
            "trainer.load_best_model_at_end: no questions are held out to find the best "
            "checkpoint; set held_out"
        )
    values: dict[str, Any] = {
        # Defaults of every run. `trainer` overrides those that `TuningSettings` does not refuse.
        "lr_scheduler_type": "cosine_warmup_with_min_lr",
        "optim": "adamw_torch",
        "dataloader_pin_memory": False,
        "dataloader_drop_last": True,
        "logging_nan_inf_filter": False,
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": True,
        "average_tokens_across_devices": False,
        # Values of this run.
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": settings.per_device_batch_size,
        "dataloader_num_workers": settings.workers,
        "logging_steps": settings.log_every,
        "save_steps": settings.save_every,
        "eval_steps": settings.evaluate_every,
        **settings.model_dump(include={"learning_rate", "weight_decay", "max_grad_norm", "seed"}),
        "lr_scheduler_kwargs": {
            "min_lr": settings.final_learning_rate,
            "warmup_lr_rate": settings.warmup_learning_rate / settings.learning_rate,
        },
        "warmup_steps": min(settings.warmup_steps, steps // 10),
        "bf16": in_bfloat16(settings),
        "use_cpu": PartialState().device.type == "cpu",  # Otherwise bfloat16 is rejected on CPUs.
        "eval_strategy": "steps" if evaluates else "no",
        **({"metric_for_best_model": "accuracy"} if settings.keeps_best else {}),
        "report_to": settings.report_to or "none",
        **settings.trainer,
    }
    try:
        arguments = TrainingArguments(**values)
    except (TypeError, ValueError, ImportError) as error:
        raise LmmsEgoplanError(f"trainer: {error}") from error
    if arguments.fsdp and arguments.device.type == "cpu":
        raise LmmsEgoplanError(
            "trainer.fsdp: transformers shards no parameters on a CPU; remove it, or use GPUs"
        )
    if arguments.n_gpu > 1:
        raise LmmsEgoplanError(
            "several GPUs need one process each: torchrun --nproc-per-node GPUS -m lmms_egoplan "
            "train ...; or choose one GPU: CUDA_VISIBLE_DEVICES=0"
        )
    samples_per_pass = settings.per_device_batch_size * arguments.world_size
    if settings.batch_size % samples_per_pass:
        raise LmmsEgoplanError(
            f"batch_size: {settings.batch_size} is not divisible by per_device_batch_size x "
            f"processes ({settings.per_device_batch_size} x {arguments.world_size})"
        )
    arguments.gradient_accumulation_steps = settings.batch_size // samples_per_pass
    return arguments


def _gathered(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the trained weights of a scorer's model, by name. All processes call this."""
    gathered = {}
    for name, values in weights.items():
        if ".lora_" in name or ".modules_to_save." in name:
            whole = values.full_tensor() if isinstance(values, DTensor) else values
            gathered[name.removeprefix("model.")] = whole.clone()
    return gathered


def check_sharded(model: torch.nn.Module, parameters: int) -> None:
    """Check that FSDP divides a model's parameters among the processes.

    Args:
        model: The model after wrapping.
        parameters: Number of its parameters before.

    Raises:
        LmmsEgoplanError: This process has all of them.
    """
    local = sum(
        (parameter.to_local() if isinstance(parameter, DTensor) else parameter).numel()
        for parameter in model.parameters()
    )
    if local >= parameters:
        raise LmmsEgoplanError(
            f"trainer.fsdp: nothing was sharded: each process has all {parameters:,} parameters; "
            "set trainer.fsdp_config for this model, or remove trainer.fsdp"
        )


def in_bfloat16(settings: TuningSettings) -> bool:
    """Return whether a run on this machine uses bfloat16."""
    if settings.precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return settings.precision == "bfloat16"
