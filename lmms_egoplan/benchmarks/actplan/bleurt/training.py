"""Training the classifier (sec. 4.2.2): one run in one folder, which the same command goes on with."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.actplan.bleurt.classifier import PlanClassifier
from lmms_egoplan.benchmarks.actplan.bleurt.evaluation import score_by_source, score_verdicts
from lmms_egoplan.benchmarks.actplan.bleurt.model import load_model, new_model
from lmms_egoplan.benchmarks.actplan.bleurt.pairs import (
    PlanPair,
    TrainingPairs,
    in_split,
    labelled_pairs,
    unknown_activities,
)
from lmms_egoplan.benchmarks.actplan.bleurt.recipe import EARLIER_PAIRS, Recipe, paper_learning_rate
from lmms_egoplan.benchmarks.actplan.bleurt.run_folder import RunFolder
from lmms_egoplan.benchmarks.actplan.bleurt.trainer import Fitted, fit
from lmms_egoplan.benchmarks.actplan.labelled_plans import read_activities, read_labelled_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import write_whole


@dataclass(frozen=True)
class _Data:
    train: TrainingPairs
    val: list[PlanPair]
    counts: dict[str, Any]


def train_bleurt(
    plans: Path, activities: Path, encoder: str, out: Path, recipe: Recipe, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Train a classifier and write the epoch that is best on val, with its scores and a model card.

    A run that was interrupted goes on after its last epoch and ends as if it had not been. A finished one is not
    repeated.

    Args:
        plans, activities: files as for `read_labelled_plans` and `read_activities`.
        encoder: as for `new_model`.
        out: folder of the run.
        tell: takes remarks for the user.

    Returns:
        What is in ``scores.json``: ``settings``; ``data`` (numbers of instances and plans); ``best_epoch``, from 1;
        ``train``, the scores on the first epoch's pairs; ``val``, those on val by model; ``val_accuracy`` over both;
        ``history`` and ``seconds`` as in `Fitted`. Scores are as in `SourceScores`.

    Raises:
        LmmsEgoplanError: one of the files cannot be read or holds something else, there is no usable encoder or data,
            the folder is another run's, or training diverges.
        OSError: the folder cannot be written.
    """
    data = _read(plans, activities, recipe)
    for activity, count in data.counts["unknown_activities"].items():
        tell(f"Left out: {count} instances of {activity}, which {activities} does not name")
    if data.counts["without_pair"]:
        tell(f"Left out: instances that give no pair to learn from: {', '.join(data.counts['without_pair'])}")
    new = new_model(encoder, recipe.max_length, recipe.seed)
    if new.max_length < recipe.max_length:
        tell(f"Pairs are cut to {new.max_length} tokens, not {recipe.max_length}: the encoder has no more positions")
    learning_rate = recipe.learning_rate or paper_learning_rate(new.model.config.hidden_size)
    recipe = replace(recipe, learning_rate=learning_rate, max_length=new.max_length)
    contents = {"plans": _digest(plans), "activities": _digest(activities), "encoder": new.digest}
    folder = RunFolder(out, asdict(recipe) | {f"{name}_sha256": digest for name, digest in contents.items()})
    scores = folder.scores()
    if scores is not None:
        tell(f"{out}: this run is finished")
        return scores
    new.model.config.update({name: getattr(recipe, name) for name in EARLIER_PAIRS})
    fitted = fit(folder, new, data.train, data.val, recipe, tell)
    model, tokenizer = load_model(fitted.best)
    scores = _scores(encoder, recipe, data, fitted, PlanClassifier(model, tokenizer))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_whole(out / "README.md", model_card(scores))
    folder.finish(scores)
    return scores


def _read(plans: Path, activities: Path, recipe: Recipe) -> _Data:
    instances, splits = read_labelled_plans(plans), read_activities(activities)
    train, val = (in_split(instances, splits, split) for split in ("train", "val"))
    pairs, labelled = TrainingPairs(train, recipe), labelled_pairs(val)
    for split, usable in (("train", pairs), ("val", labelled)):
        if not len(usable):
            raise LmmsEgoplanError(f"{plans}: no usable instances of the split {split} in it, going by {activities}")
    counts = {
        "train_instances": len(train),
        "without_pair": pairs.without_pair,
        "val_instances": len(val),
        "val_plans": len(labelled),
        "unknown_activities": unknown_activities(instances, splits),
    }
    return _Data(pairs, labelled, counts)


def _scores(encoder: str, recipe: Recipe, data: _Data, fitted: Fitted, classifier: PlanClassifier) -> dict[str, Any]:
    train = data.train.epoch(0)
    pairs = [*train, *data.val]
    verdicts = classifier.judge([(pair.gold, pair.candidate) for pair in pairs])
    on_train, on_val = verdicts[: len(train)], verdicts[len(train) :]
    by_model = score_by_source(data.val, on_val)
    return {
        "settings": {"encoder": encoder, **asdict(recipe), "device": fitted.device, "bf16": fitted.bf16},
        "data": data.counts,
        "best_epoch": fitted.best_epoch,
        "train": asdict(score_verdicts([pair.correct for pair in train], on_train)),
        "val": {model: asdict(scores) for model, scores in by_model.items()},
        "val_accuracy": score_verdicts([pair.correct for pair in data.val], on_val).accuracy,
        "history": fitted.history,
        "seconds": fitted.seconds,
    }


def model_card(scores: Mapping[str, Any]) -> str:
    """The card of a trained classifier as Markdown; `scores` as `train_bleurt` returns them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__, "")
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.get_template("card.md").render(scores)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
