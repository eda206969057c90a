"""``lmms-egoplan train``, ``merge`` and ``data export``: train models on a benchmark's data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.options import FOLDER_HELP, LabelledPlans, OutFolder, Splits
from lmms_egoplan.outputs import output_folder

export = typer.Typer(
    help="""
    Convert a benchmark's data for other programs.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens
    EPIC-KITCHENS --out trl`
    """,
    no_args_is_help=True,
)
train = typer.Typer(
    help="""
    Train models on a benchmark's training data, or models for its metrics.

    Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct --set
    epic_kitchens=EPIC-KITCHENS --out tuned`
    """,
    no_args_is_help=True,
)
merge = typer.Typer(
    help="""
    Merge an adapter into its base model.

    Example: `lmms-egoplan merge egoplan tuned --out checkpoint`
    """,
    no_args_is_help=True,
)


def _classifier_folder() -> Path:
    """Return the folder in which the classifier is stored with the prepared data."""
    from lmms_egoplan.benchmarks.actplan.classifier import default_folder

    return default_folder()


_ClassifierFolder = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        help=FOLDER_HELP,
        default_factory=_classifier_folder,
        show_default=False,
    ),
]


@export.command("egoplan-it")
def export_egoplan(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="`EgoPlan_IT.json`.")],
    format: Annotated[
        Literal["trl", "ms-swift", "llama-factory"],
        typer.Option(help="Trainer to write the data for."),
    ],
    out: OutFolder,
    epic_kitchens: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with EPIC-KITCHENS' RGB frames.")
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with Ego4D's videos.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the negative of each record.")
    ] = 42,
) -> None:
    """Export EgoPlan-IT for other trainers: images, rows for supervised fine-tuning (`sft.jsonl`)
    and preference pairs (`preferences.jsonl`).

    A pair has the right action and one of the record's negatives. For LLaMA-Factory,
    `dataset_info.json` names the two files `egoplan-it-sft` and `egoplan-it-preferences`.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens
    EPIC-KITCHENS --out trl`
    """
    from lmms_egoplan.training.egoplan.export import export_instructions, file_names

    with output_folder(out, "data export egoplan-it", file_names(format)):
        count = export_instructions(data, format, out, epic_kitchens, ego4d, seed)
        typer.echo(f"{count} questions and {count} preference pairs written to {out}")


@train.command("egoplan")
def train_egoplan(
    out: OutFolder,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="`EgoPlan_IT.json`. Default: the file in the configuration."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Checkpoint to tune: a vision-language model of transformers."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="YAML file with settings. A run writes its own `config.yaml`."
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=(
                "Override one setting, such as `epic_kitchens=DIR` or `epochs=1`. Can be repeated."
            ),
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume the run in the output folder from its last checkpoint."
        ),
    ] = False,
    no_lora: Annotated[
        bool,
        typer.Option(
            "--no-lora",
            help="Freeze the language model. Train only what joins it with the image encoder.",
        ),
    ] = False,
    no_contrastive: Annotated[
        bool,
        typer.Option(
            "--no-contrastive", help="Disable the contrastive loss. Learn only the right answers."
        ),
    ] = False,
    no_instructions: Annotated[
        bool, typer.Option("--no-instructions", help="Ignore the configuration's instruction data.")
    ] = False,
    no_recognition: Annotated[
        bool, typer.Option("--no-recognition", help="Disable action recognition.")
    ] = False,
) -> None:
    """Tune a model on EgoPlan-IT with the paper's contrastive loss. The defaults are the published
    settings.

    Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct
    --set epic_kitchens=EPIC-KITCHENS --out tuned`

    For several GPUs: `torchrun --nproc-per-node 8 -m lmms_egoplan train egoplan` with the same
    options. To evaluate: `lmms-eval --tasks egoplan_val_clips --model hf_vlm --model_args
    pretrained=NAME,peft=tuned`.

    The four ablations of the paper's Table 3 are `--no-lora`, `--no-contrastive`,
    `--no-instructions` and `--no-recognition`.
    """
    from lmms_egoplan.process_group import wait_and_leave
    from lmms_egoplan.training.egoplan.settings import read_settings
    from lmms_egoplan.training.egoplan.tuning import FILES, tune_egoplan

    with output_folder(out, "train egoplan", FILES):
        values = {"data": data, "model": model}
        ablations = {
            "lora": no_lora,
            "contrastive": no_contrastive,
            "instructions": no_instructions,
            "recognition": no_recognition,
        }
        settings = read_settings(
            config,
            {name: value for name, value in values.items() if value is not None},
            assignments or (),
        )
        settings = settings.without([name for name, is_ablated in ablations.items() if is_ablated])
        tune_egoplan(settings, out, resume=resume)
        wait_and_leave()


@train.command("actplan-bleurt")
def train_actplan_bleurt(
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
    out: _ClassifierFolder,
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
        Literal["mixed", "gold-first"],
        typer.Option(
            help=(
                "Positive pairs: two correct plans in any order, or a gold plan first. The paper "
                "says both."
            )
        ),
    ] = "mixed",
    shuffled: Annotated[
        Literal["activity", "instance"],
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
    classifier is stored with the prepared data, and judges all plans from then on. Its accuracy on
    val is printed above that of rules that need no classifier, such as "right if equal to a gold
    plan".

    Uses a GPU if available. To resume an interrupted run after its last complete epoch, repeat the
    command.

    Example: `lmms-egoplan train actplan-bleurt finetuning_data.jsonl activities.txt --encoder
    Elron/bleurt-large-512 --out classifier`
    """
    from lmms_egoplan.benchmarks.actplan.classifier_agreement import SourceScores
    from lmms_egoplan.report.actplan.classifier_table import print_agreement
    from lmms_egoplan.training.bleurt.pairs import Recipe
    from lmms_egoplan.training.bleurt.training import FILES, train_bleurt

    with output_folder(out, "train actplan-bleurt", FILES):
        if learning_rate is not None and not 0 < learning_rate < 1:
            raise typer.BadParameter("must be above 0 and below 1", param_hint="--learning-rate")
        recipe = Recipe(epochs, learning_rate, batch_size, max_length, seed, positives, shuffled)
        scores = train_bleurt(
            plans, activities, encoder, out, recipe, lambda remark: typer.echo(remark, err=True)
        )
        train = SourceScores(**scores["train"])
        typer.echo(
            f"Best epoch: {scores['best_epoch']} of {scores['settings']['epochs']}. Accuracy on "
            f"{train.plans} training pairs: {train.accuracy:.1%}"
        )
        on_val = {model: SourceScores(**values) for model, values in scores["val"].items()}
        print_agreement("this classifier", on_val, "val")
        typer.echo(f"Written to {out}")


@merge.command("egoplan")
def merge_egoplan(
    adapter: Annotated[
        Path, typer.Argument(metavar="ADAPTER", help="Folder written by `train egoplan`.")
    ],
    out: OutFolder,
    model: Annotated[
        str | None, typer.Option(help="Base model. Default: the one that the adapter names.")
    ] = None,
) -> None:
    """Merge an adapter into its base model. Writes a plain checkpoint for vLLM, SGLang and others.

    Example: `lmms-egoplan merge egoplan tuned --out checkpoint`
    """
    from lmms_egoplan.training.adapter import write_merged

    with output_folder(out, "merge egoplan", ["config.json"]):
        write_merged(adapter, model, out)
        typer.echo(f"Written to {out}")
