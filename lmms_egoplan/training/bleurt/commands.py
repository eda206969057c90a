"""Command ``lmms-egoplan train actplan-bleurt``: train the classifier of correct plans."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lmms_egoplan.benchmarks.actplan.classifier import Positives, Shuffled, default_folder
from lmms_egoplan.options import FOLDER_HELP, LabelledPlans, Splits
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.training.bleurt.pairs import Recipe

_OUT = typer.Option(
    "--out", metavar="DIR", help=FOLDER_HELP, default_factory=default_folder, show_default=False
)

# Files of a finished run.
_CLASSIFIER = ("README.md", "config.json", "model.safetensors", "scores.json")


def train(
    plans: LabelledPlans,
    activities: Splits,
    encoder: Annotated[
        str,
        typer.Option(
            help=(
                "Encoder: Elron/bleurt-large-512 (BLEURT), Elron/bleurt-base-128 (BLEURT-base), "
                "or the folder of any BERT-type checkpoint."
            )
        ),
    ],
    out: Annotated[Path, _OUT],
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs. Each shows every training instance once.")
    ] = 70,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help=(
                "Constant learning rate. Default: 5e-6 for encoders of BERT-large's size or more, "
                "else 1e-6."
            )
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pairs per update.")] = 12,
    max_length: Annotated[
        int, typer.Option(min=8, help="Tokens per pair. The longer plan is cut first.")
    ] = 512,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for weights, pairs, their order and dropout.")
    ] = 0,
    positives: Annotated[
        Positives,
        typer.Option(
            help=(
                "Positive pairs: two correct plans in any order, or a gold plan first. The paper "
                "says both."
            )
        ),
    ] = "mixed",
    shuffled: Annotated[
        Shuffled,
        typer.Option(
            help=(
                "Source of shuffled gold plans: the same activity, as in the paper, or the same "
                "instance, as in earlier versions of this command."
            )
        ),
    ] = "activity",
) -> None:
    """Train ActPlan-1K's classifier of correct plans. The defaults are the paper's settings.

    The output folder contains the classifier, its scores and its model card. Without --out, the
    classifier is stored with the prepared data, and judges all plans from then on.

    Uses a GPU if available. To resume an interrupted run after its last complete epoch, repeat the
    command.

    Example: `lmms-egoplan train actplan-bleurt finetuning_data.jsonl activities.txt --encoder
    Elron/bleurt-large-512 --out classifier`
    """
    from lmms_egoplan.training.bleurt.training import train_bleurt

    with output_folder(out, "train actplan-bleurt", _CLASSIFIER):
        if learning_rate is not None and not 0 < learning_rate < 1:
            raise typer.BadParameter("must be above 0 and below 1", param_hint="--learning-rate")
        recipe = Recipe(epochs, learning_rate, batch_size, max_length, seed, positives, shuffled)
        scores = train_bleurt(
            plans, activities, encoder, out, recipe, lambda remark: typer.echo(remark, err=True)
        )
        typer.echo(_summary(scores))
        typer.echo(f"Written to {out}")


def _summary(scores: dict[str, Any]) -> str:
    parts = [
        f"{model} {values['accuracy']:.1%} (majority {values['majority']:.1%}, "
        f"MCC {'n/a' if values['mcc'] is None else format(values['mcc'], '.3f')})"
        for model, values in scores["val"].items()
    ]
    epochs = scores["settings"]["epochs"]
    train = scores["train"]["accuracy"]
    return (
        f"Best epoch {scores['best_epoch']} of {epochs}. Train {train:.1%}. Val: {', '.join(parts)}"
    )
