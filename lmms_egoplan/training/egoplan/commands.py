"""``train egoplan``, ``merge egoplan`` and ``data export egoplan-it``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.training.egoplan.export import PAIRS, Trainer, export_preferences
from lmms_egoplan.training.egoplan.settings import read_settings

# Files of a finished run.
_ADAPTER = (
    "README.md",
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.yaml",
    "history.json",
)


def train(
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
    from lmms_egoplan import process_group
    from lmms_egoplan.training.egoplan.tuning import tune_egoplan

    with output_folder(out, "train egoplan", _ADAPTER):
        values = {
            name: value for name, value in (("data", data), ("model", model)) if value is not None
        }
        ablations: list[tuple[bool, str, Any]] = [
            (no_lora, "lora", None),
            (no_contrastive, "contrastive", False),
            (no_instructions, "instructions", []),
            (no_recognition, "recognition", False),
        ]
        settings = read_settings(config, values, assignments or ())
        settings = settings.changed(
            {name: value for is_chosen, name, value in ablations if is_chosen}
        )
        tune_egoplan(settings, out, resume=resume)
        process_group.wait_and_leave()


def merge(
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


def export(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="`EgoPlan_IT.json`.")],
    format: Annotated[Trainer, typer.Option(help="Trainer to write the data for.")],
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
    """Export EgoPlan-IT as preference data for other trainers: images, prompt, chosen and rejected
    action.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens
    EPIC-KITCHENS --out trl`
    """
    with output_folder(out, "data export egoplan-it", [PAIRS]):
        count = export_preferences(data, format, out, epic_kitchens, ego4d, seed)
        typer.echo(f"{count} pairs written to {out}")
