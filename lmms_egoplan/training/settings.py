"""Settings of a training run.

The defaults are those of arXiv 2312.06722 and its published configuration.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from lmms_egoplan.validation import problem

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]

# Arguments of transformers' TrainingArguments that a run sets itself, except those with the name of
# a setting.
_SET_BY = {
    "per_device_train_batch_size": "per_device_batch_size",
    "dataloader_num_workers": "workers",
    "logging_steps": "log_every",
    "save_steps": "save_every",
    "eval_steps": "evaluate_every",
    "output_dir": "--out",
    "max_steps": "steps",
    "num_train_epochs": "epochs",
    "gradient_accumulation_steps": "batch_size and per_device_batch_size",
    "lr_scheduler_kwargs": "warmup_learning_rate and final_learning_rate",
    "warmup_ratio": "warmup_steps",
    "bf16": "precision",
    "fp16": "precision",
    "save_strategy": "save_every",
    "eval_strategy": "held_out",
    "data_seed": "seed",
    "resume_from_checkpoint": "--resume",
}
# The same in every run.
_FIXED = (
    "lr_scheduler_type",
    "dataloader_drop_last",
    "eval_on_start",
    "remove_unused_columns",
    "average_tokens_across_devices",
    "auto_find_batch_size",
    "load_best_model_at_end",
)


class Lora(BaseModel, extra="forbid", frozen=True):
    """Low-rank adaptation of the language model.

    `targets` are layer names, anywhere in the model.
    """

    r: Positive = 16
    alpha: Positive = 32
    dropout: Share = 0.05
    targets: list[str] = ["q_proj", "k_proj", "v_proj", "o_proj"]


class TuningSettings(BaseModel, extra="forbid", frozen=True):
    """Settings of a run, for any data.

    Attributes:
        lora: None leaves the language model unchanged, so only the joining modules are trained.
        contrastive: Whether negatives enter the loss (eq. 2).
        contrastive_group: Number of consecutive samples over whose violations eq. 3 averages
            (`batch_loss`). The published configuration averages over the 2 samples of each process.
        epochs: Number of epochs. Each shows every sample of the mix once, or as often as the
            proportions say.
        steps: Number of updates; replaces `epochs`.
        batch_size: Samples per update, over all processes and accumulated passes. Its division
            among them does not change the loss.
        per_device_batch_size: Samples per forward and backward pass of a process.
        learning_rate: Learning rate after the linear warm-up.
        warmup_learning_rate: Learning rate at the start of the warm-up, at most `learning_rate`.
        final_learning_rate: Learning rate at the end of the cosine schedule, at most
            `learning_rate`.
        warmup_steps: Number of warm-up updates; at most a tenth of the run.
        max_grad_norm: Maximum gradient norm; 0 for none. Not from the paper.
        precision: float32, or bfloat16 with the trained parameters in float32. ``auto`` uses
            bfloat16 if a GPU has it.
        answer_passes: See `AnswerPasses`. ``auto`` uses shared passes if they are exact for the
            model.
        workers: Number of processes that read and encode samples.
        check: Whether to encode all samples before the first update.
        report_to: Where transformers' Trainer logs to: tensorboard, wandb, ...
        trainer: More arguments of transformers' ``TrainingArguments``, such as ``fsdp`` and
            ``deepspeed`` (untested).
    """

    lora: Lora | None = Lora()
    contrastive: bool = True
    contrastive_group: Positive = 2
    epochs: Positive = 2
    steps: Positive | None = None
    batch_size: Positive = 16
    per_device_batch_size: Positive = 2
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 3e-5
    warmup_learning_rate: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    final_learning_rate: Annotated[float, Field(ge=0, lt=1)] = 1e-5
    warmup_steps: Annotated[int, Field(ge=0)] = 1000
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    gradient_checkpointing: bool = False
    answer_passes: Literal["auto", "shared", "separate"] = "auto"
    attn_implementation: str | None = None
    workers: Annotated[int, Field(ge=0)] = 4
    check: bool = True
    seed: Annotated[int, Field(ge=0)] = 42
    log_every: Positive = 10
    save_every: Positive = 500
    evaluate_every: Positive = 500
    report_to: list[str] = []
    trainer: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check(self) -> "TuningSettings":
        for name in ("warmup_learning_rate", "final_learning_rate"):
            if getattr(self, name) > self.learning_rate:
                raise problem(
                    f"{name}: expected at most learning_rate, {self.learning_rate:g}, found "
                    f"{getattr(self, name):g}; set both in the configuration (--config)"
                )
        for name in self.trainer:
            if name in _FIXED:
                raise problem(f"trainer.{name}: the run sets this itself; remove it")
            setting = _SET_BY.get(name)
            if setting is None and name in type(self).model_fields:
                setting = name
            if setting:
                raise problem(f"trainer.{name}: set {setting} instead")
        return self
