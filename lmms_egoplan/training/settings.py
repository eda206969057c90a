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
    "metric_for_best_model",
    "greater_is_better",
    "save_only_model",
    "save_total_limit",
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
            (`batch_loss`), a divisor of `per_device_batch_size`. The published configuration
            averages over the 2 samples of each process.
        epochs: Number of epochs. Each shows every sample of the mix once, or as often as the
            proportions say.
        steps: Number of updates; replaces `epochs`.
        batch_size: Samples per update, over all processes and accumulated passes. Its division
            among them does not change the loss.
        per_device_batch_size: Samples per forward and backward pass of a process, as one padded
            batch.
        learning_rate: Learning rate after the linear warm-up.
        warmup_learning_rate: Learning rate at the start of the warm-up, at most `learning_rate`.
        final_learning_rate: Learning rate at the end of the cosine schedule, at most
            `learning_rate`.
        warmup_steps: Number of warm-up updates; at most a tenth of the run.
        max_grad_norm: Maximum gradient norm; 0 for none. Not from the paper.
        precision: float32, or bfloat16 with the trained parameters in float32. ``auto`` uses
            bfloat16 if a GPU has it.
        quantize: ``4bit`` loads the language model in 4-bit NormalFloat (QLoRA, arXiv 2305.14314).
            Needs a GPU and bitsandbytes.
        answer_passes: ``shared`` computes all answers of a question in one row after its context,
            ``separate`` has a row for each. ``auto`` shares if this is exact for the model.
        workers: Number of processes that read and encode samples.
        check: Whether to encode all samples before the first update.
        report_to: Where transformers' Trainer logs to: tensorboard, wandb, ...
        trainer: More arguments of transformers' ``TrainingArguments``, such as
            ``load_best_model_at_end``, which keeps the weights of the most accurate evaluation on
            held-out questions, or ``fsdp`` and ``deepspeed`` (never run on
            GPUs).
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
    quantize: Literal["4bit"] | None = None
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

    @property
    def keeps_best(self) -> bool:
        """True if the adapter has the weights of the most accurate evaluation, not the last."""
        return bool(self.trainer.get("load_best_model_at_end"))

    @model_validator(mode="after")
    def _check(self) -> "TuningSettings":
        for name in ("warmup_learning_rate", "final_learning_rate"):
            if getattr(self, name) > self.learning_rate:
                raise problem(
                    f"{name}: expected at most learning_rate, {self.learning_rate:g}, found "
                    f"{getattr(self, name):g}; set both in the configuration (--config)"
                )
        if self.contrastive and self.per_device_batch_size % self.contrastive_group:
            raise problem(
                f"contrastive_group: {self.contrastive_group} does not divide "
                f"per_device_batch_size, {self.per_device_batch_size}: a group needs all of its "
                "samples in one pass; set both in the configuration (--config)"
            )
        if self.keeps_best and self.save_every != self.evaluate_every:
            raise problem(
                "trainer.load_best_model_at_end: needs a checkpoint for each evaluation, but "
                f"save_every is {self.save_every} and evaluate_every {self.evaluate_every}; set "
                "both to the same number"
            )
        if self.quantize and self.lora is None:
            raise problem("quantize: needs lora, since 4-bit weights cannot be trained")
        if self.quantize and (self.trainer.get("fsdp") or self.trainer.get("deepspeed")):
            raise problem("quantize: does not work with trainer.fsdp or trainer.deepspeed")
        self._check_arguments()
        return self

    def _check_arguments(self) -> None:
        """Refuse arguments of the Trainer that a run or a setting determines."""
        for name in self.trainer:
            if name in _FIXED:
                raise problem(f"trainer.{name}: the run sets this itself; remove it")
            setting = _SET_BY.get(name)
            if setting is None and name in type(self).model_fields:
                setting = name
            if setting:
                raise problem(f"trainer.{name}: set {setting} instead")
