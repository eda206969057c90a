"""Train the classifier with transformers' Trainer (sec. 4.2.2).

`Trainer` updates the weights, evaluates each epoch and writes checkpoints, and `RunFolder` finds
the one to resume from. The paper's own parts are the head and the pairs, which each epoch draws
anew (`TrainingPairs`).
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

from lmms_egoplan.benchmarks.actplan.classifier import (
    PlanClassifier,
    encode_pair,
    load_model,
    load_weights,
)
from lmms_egoplan.benchmarks.actplan.classifier_agreement import (
    PlanPair,
    in_split,
    labelled_pairs,
    score_by_source,
    score_verdicts,
    unknown_activities,
)
from lmms_egoplan.benchmarks.actplan.plans import read_activities, read_labelled_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_digest, write_whole
from lmms_egoplan.outputs import results_of
from lmms_egoplan.training.bleurt.pairs import Recipe, TrainingPairs
from lmms_egoplan.training.run_folder import RunFolder, render_card

# Words of the plans in sec. 4.2.2 that become one token each.
ACTION_TOKENS = ("switch-on", "switch-off", "place_inside", "place_on_top", "walk_to")

FILES = ("README.md", "config.json", "model.safetensors", "scores.json")
"""Files of a finished run."""

_HEAD = {"plan_head.weight", "plan_head.bias"}


def new_model(
    encoder: str, max_length: int, seed: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """Add a head to an encoder, and an embedding for each of `ACTION_TOKENS`.

    Their weights depend on the seed.

    Args:
        encoder: Name on the hub, such as ``Elron/bleurt-base-128``, or folder of a BERT-type
            checkpoint.
        max_length: Maximum number of tokens per pair.
        seed: Random seed for the new weights.

    Returns:
        The encoder with its untrained head, whose config has ``max_pair_length``: the requested
        number, limited by the encoder's positions. Also its tokenizer, and a digest of the
        encoder's weights and tokenizer.

    Raises:
        LmmsEgoplanError: The checkpoint is missing, incomplete or of another type.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(encoder)
        if config.model_type != "bert":
            raise LmmsEgoplanError(
                f"{encoder}: expected an encoder of the type bert, found {config.model_type}"
            )
        config.max_pair_length = min(max_length, config.max_position_embeddings)
        tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
        transformers.set_seed(seed)
        model, lacking = load_weights(encoder, config)
    except LmmsEgoplanError:
        raise
    except Exception as error:  # raised by the loaders of many file formats
        raise LmmsEgoplanError(
            f"{encoder}: cannot load a BERT-type checkpoint: {error}\nWithout a network, download "
            "it elsewhere (`hf download NAME --local-dir DIR`) and pass the folder: --encoder DIR"
        ) from error
    if lacking != _HEAD:
        flaw = (
            f"lacks {', '.join(sorted(lacking - _HEAD)[:3])}"
            if lacking
            else "is already a plan classifier"
        )
        raise LmmsEgoplanError(
            f"{encoder}: {flaw}; use a checkpoint with exactly the weights of a BERT encoder"
        )
    digest = hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode())
    for name, weights in sorted(model.bert.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    tokenizer.add_special_tokens(
        {"extra_special_tokens": list(ACTION_TOKENS)}, replace_extra_special_tokens=False
    )
    if len(tokenizer) > config.vocab_size:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return model, tokenizer, digest.hexdigest()


# Hidden size of BERT-large.
_LARGE = 1024


def train_bleurt(
    plans: Path,
    activities: Path,
    encoder: str,
    out: Path,
    recipe: Recipe,
    notify: Callable[[str], None],
) -> dict[str, Any]:
    """Train a classifier. Write the epoch that is best on val, with its scores and a model card.

    An interrupted run resumes after its last epoch and gives the same result. A finished run is not
    repeated.

    Args:
        plans: File for `read_labelled_plans`.
        activities: File for `read_activities`.
        encoder: As for `new_model`.
        out: Folder of the run.
        recipe: Settings of training.
        notify: Receives messages for the user.

    Returns:
        The contents of ``scores.json``:

        - ``settings``
        - ``data``: numbers of instances and plans
        - ``best_epoch``, from 1
        - ``train``: scores on the first epoch's pairs
        - ``val``: scores on val by model
        - ``val_accuracy``: accuracy over both models
        - ``history``: ``epoch``, ``train_loss``, ``val_loss`` and ``val_accuracy`` (in [0, 1]) of
          every epoch
        - ``seconds``: time of all epochs, without work lost in an interruption

        Scores are as in `SourceScores`.

    Raises:
        LmmsEgoplanError: A file cannot be read or is invalid, the encoder or data is unusable, the
            folder belongs to another run, there is more than one GPU or process, or training
            diverges.
        OSError: The folder cannot be written.
    """
    train, val, counts = _read(plans, activities, recipe)
    for activity, count in counts["unknown_activities"].items():
        notify(f"Skipped: {count} instances of {activity}, which {activities} does not contain")
    if train.without_pair:
        notify(f"Skipped: instances without a training pair: {', '.join(train.without_pair)}")
    model, tokenizer, digest = new_model(encoder, recipe.max_length, recipe.seed)
    max_length = model.config.max_pair_length
    if max_length < recipe.max_length:
        notify(
            f"Pairs are cut to {max_length} tokens instead of {recipe.max_length}, the "
            "encoder's maximum"
        )
    learning_rate = recipe.learning_rate or paper_learning_rate(model.config.hidden_size)
    recipe = replace(recipe, learning_rate=learning_rate, max_length=max_length)
    inputs = {
        "plans_sha256": file_digest(plans),
        "activities_sha256": file_digest(activities),
        "encoder_sha256": digest,
    }
    folder = RunFolder(out, asdict(recipe) | inputs)
    scores = folder.scores()
    if scores is not None:
        notify(f"{out}: this run is already finished")
        return scores
    model.config.update(
        {"positives": recipe.positives, "shuffled": recipe.shuffled, "encoder": _short(encoder)}
    )
    trainer = _train(folder, recipe, model, tokenizer, train, val, notify)
    # The best epoch has the highest accuracy on val; among equals, it is the first.
    best_step = trainer.state.best_global_step
    model, tokenizer = load_model(folder.checkpoint(best_step))
    _, seconds = folder.last_checkpoint()
    scores = {
        "settings": {
            "encoder": encoder,
            **asdict(recipe),
            "device": trainer.args.device.type,
            "bf16": trainer.args.bf16,
        },
        "data": counts,
        "best_epoch": best_step * recipe.epochs // trainer.state.max_steps,
        **_scores(PlanClassifier(model, tokenizer), train.epoch(0), val),
        "history": _history(trainer.state),
        "seconds": round(seconds, 1),
    }
    with results_of(out) as results:
        model.save_pretrained(results)
        tokenizer.save_pretrained(results)
        write_whole(results / "README.md", render_card(Path(__file__).with_name("card.md"), scores))
    folder.finish(scores)
    return scores


def _train(
    folder: RunFolder,
    recipe: Recipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    train: TrainingPairs,
    val: Sequence[PlanPair],
    notify: Callable[[str], None],
) -> Trainer:
    """Train all epochs, from the last checkpoint if there is one."""
    checkpoint, seconds = folder.last_checkpoint()
    if checkpoint is not None:
        notify(f"Resuming from {checkpoint}")
    start = time.monotonic() - seconds
    train_inputs = _encoded(tokenizer, recipe.max_length, train.epoch(0))

    class Epochs(TrainerCallback):
        """Draw new pairs at the start of each epoch, and mark its checkpoint as complete."""

        def on_epoch_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            num_finished = round(state.epoch or 0)
            pairs = train.epoch(num_finished)
            train_inputs[:] = _encoded(tokenizer, recipe.max_length, pairs)

        def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            folder.complete(state.global_step, state.best_global_step, time.monotonic() - start)

    trainer = Trainer(
        model,
        _arguments(folder, recipe),
        train_dataset=train_inputs,
        eval_dataset=_encoded(tokenizer, recipe.max_length, val),
        processing_class=tokenizer,
        compute_metrics=_accuracy,
        callbacks=[Epochs()],
    )
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return trainer


def _short(encoder: str) -> str:
    """Return the last two parts of an encoder's path, which are its whole name on the hub."""
    return "/".join(Path(encoder).absolute().parts[-2:] if Path(encoder).is_dir() else [encoder])


def _read(
    plans: Path, activities: Path, recipe: Recipe
) -> tuple[TrainingPairs, list[PlanPair], dict[str, Any]]:
    """Read the training instances and the labelled pairs of val, and count both."""
    instances = read_labelled_plans(plans)
    splits = read_activities(activities)
    train, val = (in_split(instances, splits, split) for split in ("train", "val"))
    pairs = TrainingPairs(train, recipe)
    labelled = labelled_pairs(val)
    for split, usable in (("train", pairs), ("val", labelled)):
        if not len(usable):
            raise LmmsEgoplanError(
                f"{plans}: no usable instances of the split {split} according to {activities}"
            )
    counts = {
        "train_instances": len(train),
        "without_pair": pairs.without_pair,
        "val_instances": len(val),
        "val_plans": len(labelled),
        "unknown_activities": unknown_activities(instances, splits),
    }
    return pairs, labelled, counts


def _scores(
    classifier: PlanClassifier, train: list[PlanPair], val: list[PlanPair]
) -> dict[str, Any]:
    verdicts = classifier.judge([(pair.gold, pair.candidate) for pair in train + val])
    on_train = verdicts[: len(train)]
    on_val = verdicts[len(train) :]
    return {
        "train": asdict(score_verdicts([pair.correct for pair in train], on_train)),
        "val": {model: asdict(scores) for model, scores in score_by_source(val, on_val).items()},
        "val_accuracy": score_verdicts([pair.correct for pair in val], on_val).accuracy,
    }


def paper_learning_rate(hidden_size: int) -> float:
    """Return the paper's learning rate for an encoder.

    It is 5e-6 for an encoder of at least BERT-large's hidden size (BLEURT), else 1e-6
    (BLEURT-base).
    """
    return 5e-6 if hidden_size >= _LARGE else 1e-6


def _arguments(folder: RunFolder, recipe: Recipe) -> TrainingArguments:
    arguments = TrainingArguments(
        output_dir=str(folder.checkpoints),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        dataloader_pin_memory=torch.cuda.is_available(),
        bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
        seed=recipe.seed,
        data_seed=recipe.seed,
        # The same for all recipes (sec. 4.2.2).
        optim="adamw_torch",
        weight_decay=0.01,
        lr_scheduler_type="constant",
        max_grad_norm=5.0,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        metric_for_best_model="accuracy",
        greater_is_better=True,
        report_to="none",
        remove_unused_columns=False,
    )
    if max(arguments.n_gpu, arguments.world_size) > 1:
        raise LmmsEgoplanError(
            "training uses one GPU in one process; choose a GPU: CUDA_VISIBLE_DEVICES=0"
        )
    return arguments


def _encoded(
    tokenizer: PreTrainedTokenizerBase, max_length: int, pairs: Sequence[PlanPair]
) -> list[dict[str, Any]]:
    """Encode pairs as the Trainer's inputs."""
    inputs: list[dict[str, Any]] = []
    for pair in pairs:
        tokens, _ = encode_pair(tokenizer, max_length, pair.gold, pair.candidate)
        inputs.append({**tokens, "labels": int(pair.correct)})
    return inputs


def _accuracy(prediction: EvalPrediction) -> dict[str, float]:
    if not np.isfinite(prediction.predictions).all():
        raise LmmsEgoplanError(
            "training has diverged (NaN); delete --out and train with a smaller --learning-rate"
        )
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def _history(state: TrainerState) -> list[dict[str, float]]:
    """Return losses and accuracy of every epoch, which the Trainer logs once each."""
    train_losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    evaluations = [entry for entry in state.log_history if "eval_loss" in entry]
    return [
        {
            "epoch": epoch,
            "train_loss": train_loss,
            "val_loss": evaluation["eval_loss"],
            "val_accuracy": evaluation["eval_accuracy"],
        }
        for epoch, (train_loss, evaluation) in enumerate(
            zip(train_losses, evaluations, strict=True), start=1
        )
    ]
