"""The epochs of training, with transformers' Trainer: constant learning rate, best epoch on val."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmms_egoplan.benchmarks.actplan.bleurt.model import NewModel
from lmms_egoplan.benchmarks.actplan.bleurt.pairs import PlanPair, TrainingPairs
from lmms_egoplan.benchmarks.actplan.bleurt.recipe import Recipe
from lmms_egoplan.benchmarks.actplan.bleurt.tokens import encode_pair
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.run_folder import RunFolder

if TYPE_CHECKING:
    from transformers import EvalPrediction, Trainer, TrainerCallback, TrainingArguments


@dataclass(frozen=True)
class Fitted:
    """A run at its end.

    best: checkpoint of the epoch with the highest accuracy on val, the first of equal ones.
    best_epoch: from 1.
    history: ``epoch``, ``train_loss``, ``val_loss`` and ``val_accuracy`` (in [0, 1]) of every epoch.
    device: ``cpu`` or ``cuda``.
    bf16: whether in mixed precision.
    seconds: of all epochs, without what an interruption has lost.
    """

    best: Path
    best_epoch: int
    history: list[dict[str, float]]
    device: str
    bf16: bool
    seconds: float


def fit(
    folder: RunFolder,
    new: NewModel,
    train: TrainingPairs,
    val: Sequence[PlanPair],
    recipe: Recipe,
    tell: Callable[[str], None],
) -> Fitted:
    """Train from the last whole checkpoint, or from the start, to the last epoch.

    Args:
        recipe: with a learning rate.
        tell: is told where the run goes on.

    Raises:
        LmmsEgoplanError: more than one GPU or process, or training diverges.
    """
    from transformers import Trainer

    last = folder.last_checkpoint()
    if last is not None:
        tell(f"Going on from {last}")
    start = time.monotonic() - (folder.seconds(last) if last else 0.0)
    dataset = _dataset(new, train.epoch(0))
    trainer = Trainer(
        new.model,
        _arguments(folder, recipe),
        train_dataset=dataset,
        eval_dataset=_dataset(new, val),
        processing_class=new.tokenizer,
        compute_metrics=_accuracy,
        callbacks=[_epochs(folder, train, dataset, start)],
    )
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    best = trainer.state.best_global_step
    return Fitted(
        best=folder.checkpoint(best),
        best_epoch=best * recipe.epochs // trainer.state.max_steps,
        history=_history(trainer),
        device=trainer.args.device.type,
        bf16=trainer.args.bf16,
        seconds=round(time.monotonic() - start, 1),
    )


def _arguments(folder: RunFolder, recipe: Recipe) -> "TrainingArguments":
    import torch
    from transformers import TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder.checkpoints),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        optim="adamw_torch",
        weight_decay=0.01,
        lr_scheduler_type="constant",
        max_grad_norm=5.0,
        dataloader_pin_memory=torch.cuda.is_available(),
        bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        metric_for_best_model="accuracy",
        greater_is_better=True,
        seed=recipe.seed,
        data_seed=recipe.seed,
        report_to="none",
        remove_unused_columns=False,
    )
    if max(arguments.n_gpu, arguments.world_size) > 1:
        raise LmmsEgoplanError("training uses one GPU in one process; choose one: CUDA_VISIBLE_DEVICES=0")
    return arguments


def _dataset(new: NewModel, pairs: Sequence[PlanPair]) -> Any:
    from torch.utils.data import Dataset

    class Pairs(Dataset):
        """Encoded when asked for; `pairs` may be replaced by others of the same number."""

        def __init__(self) -> None:
            self.pairs = pairs

        def __len__(self) -> int:
            return len(self.pairs)

        def __getitem__(self, index: int) -> dict[str, Any]:
            pair = self.pairs[index]
            tokens = encode_pair(new.tokenizer, new.max_length, pair.gold, pair.candidate)
            return tokens.inputs() | {"labels": int(pair.correct)}

    return Pairs()


def _epochs(folder: RunFolder, train: TrainingPairs, dataset: Any, start: float) -> "TrainerCallback":
    from transformers import TrainerCallback

    class Epochs(TrainerCallback):
        """Gives every epoch its pairs, going by the updates before it, and marks checkpoints once they are whole."""

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            dataset.pairs = train.epoch(state.global_step * int(args.num_train_epochs) // state.max_steps)

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            folder.complete(state.global_step, state.best_global_step, time.monotonic() - start)

    return Epochs()


def _accuracy(prediction: "EvalPrediction") -> dict[str, float]:
    if not np.isfinite(prediction.predictions).all():
        raise LmmsEgoplanError("training has diverged (NaN); remove --out and train with a smaller --learning-rate")
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def _history(trainer: "Trainer") -> list[dict[str, float]]:
    """One entry per epoch out of the Trainer's log, which has the training loss and the evaluation apart."""
    epochs: dict[int, dict[str, float]] = {}
    names = {"loss": "train_loss", "eval_loss": "val_loss", "eval_accuracy": "val_accuracy"}
    for entry in trainer.state.log_history:
        values = {name: entry[key] for key, name in names.items() if key in entry}
        if values:
            epochs.setdefault(round(entry["epoch"]), {}).update(values)
    return [{"epoch": epoch, **values} for epoch, values in sorted(epochs.items())]
