"""``lmms-egoplan train egoplan``, ``merge`` and ``data export egoplan-it``."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the adapter and its model card.")],
    model: Annotated[
        str | None,
        typer.Option(help="Checkpoint to tune: any vision-language model of transformers.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="EgoPlan-IT: `EgoPlan_IT.json`.", show_default=False)
    ] = None,
    epic_kitchens: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with EPIC-KITCHENS' RGB frames.", show_default=False),
    ] = None,
    ego4d: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with Ego4D's videos, for data of one's own.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings, YAML. A run writes all of its own to `config.yaml`. Options of the command line go first.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in DIR from its last checkpoint.")
    ] = False,
    recognition: Annotated[
        bool, typer.Option("--recognition", help="Mix in action recognition on the same clips. This is the default.")
    ] = False,
    recognition_data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Action recognition as `data build egoplan` writes it. Default: made of `--data`.",
            show_default=False,
        ),
    ] = None,
    no_recognition: Annotated[bool, typer.Option("--no-recognition", help="Leave action recognition out.")] = False,
    instructions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Instruction data to mix in, in the layout of LLaVA, MiniGPT-4 or VideoChat. Repeat for several.",
            show_default=False,
        ),
    ] = None,
    instruction_media: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Their images and videos. Default: the folder of each file.", show_default=False
        ),
    ] = None,
    no_instructions: Annotated[
        bool, typer.Option("--no-instructions", help="Leave out the configuration's instruction data.")
    ] = False,
    no_contrastive: Annotated[
        bool, typer.Option("--no-contrastive", help="Leave out the contrastive loss: learn the answers alone.")
    ] = False,
    no_lora: Annotated[
        bool,
        typer.Option(
            "--no-lora", help="Leave the language model as it is: train only what joins it with the image encoder."
        ),
    ] = False,
    no_check: Annotated[
        bool,
        typer.Option("--no-check", help="Do not read all images and videos before the first update."),
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: 2, as in the paper.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates, in place of epochs.", show_default=False)] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples an update, over all processes. Default: 16.", show_default=False)
    ] = None,
    per_device_batch_size: Annotated[
        int | None,
        typer.Option("--per-device", min=1, help="Samples a pass of a process. Default: 2.", show_default=False),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Default: 3e-5.", show_default=False)] = None,
    gradient_checkpointing: Annotated[
        bool,
        typer.Option("--checkpointing", help="Gradient checkpointing: less memory, a third more time."),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of weights, order, negatives and dropout. Default: 42.", show_default=False),
    ] = None,
) -> None:
    """Tune a model on EgoPlan-IT with the paper's contrastive loss. The defaults are the published settings.

    Example: `lmms-egoplan train egoplan --model Qwen/Qwen2.5-VL-7B-Instruct --data EgoPlan_IT.json
    --epic-kitchens EPIC-KITCHENS --out tuned`

    Several GPUs: `torchrun --nproc-per-node 8 -m lmms_egoplan train egoplan` and the same options. Then evaluate:
    `lmms-eval --tasks egoplan_val_clips --model hf_vlm --model_args pretrained=NAME,peft=tuned`.

    The four ablations of the paper's Table 3 are `--no-lora`, `--no-contrastive`, `--no-instructions` and
    `--no-recognition`.
    """
    from lmms_egoplan.benchmarks.egoplan.tuning.settings import RECOGNITION, EgoPlanTuning
    from lmms_egoplan.benchmarks.egoplan.tuning.tuning import tune_egoplan
    from lmms_egoplan.training.settings import read_settings

    given: dict[str, Any] = {
        "model": model,
        "data": data,
        "epic_kitchens": epic_kitchens,
        "ego4d": ego4d,
        "recognition": (True if recognition or recognition_data else None) if not no_recognition else False,
        "recognition_data": recognition_data,
        "instructions": instructions or None,
        "instruction_media": instruction_media,
        "check": False if no_check else None,
        "contrastive": False if no_contrastive else None,
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "per_device_batch_size": per_device_batch_size,
        "learning_rate": learning_rate,
        "gradient_checkpointing": gradient_checkpointing or None,
        "seed": seed,
    }
    if no_recognition and (recognition or recognition_data):
        raise typer.BadParameter("given together with --recognition", param_hint="--no-recognition")
    if no_instructions and instructions:
        raise typer.BadParameter("given together with --instructions", param_hint="--no-instructions")
    settings = read_settings(EgoPlanTuning, config, given)
    without = {RECOGNITION} if no_recognition else set()
    if no_instructions:
        without |= {path.stem for path in settings.instructions}
        settings = settings.model_copy(update={"instructions": []})
    if settings.proportions is not None:
        shares = {name: share for name, share in settings.proportions.items() if name not in without}
        settings = settings.model_copy(update={"proportions": shares})
    if no_lora:
        settings = settings.model_copy(update={"lora": None})
    tune_egoplan(settings, out, resume, lambda remark: typer.echo(remark, err=True))


def merge(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="Folder that `train egoplan` wrote.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the checkpoint.")],
    model: Annotated[
        str | None, typer.Option(help="The base. Default: that which the adapter names.", show_default=False)
    ] = None,
) -> None:
    """Add an adapter to its base: a plain checkpoint, for vLLM, SGLang and all that loads transformers' models.

    Example: `lmms-egoplan merge tuned --out checkpoint`
    """
    from lmms_egoplan.training.adapter import write_merged

    write_merged(adapter, model, out)
    typer.echo(f"Written to {out}")


def export(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="EgoPlan-IT: `EgoPlan_IT.json`.")],
    format: Annotated[Literal["trl", "ms-swift"], typer.Option(help="The trainer that reads it.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the samples and their images.")],
    epic_kitchens: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with EPIC-KITCHENS' RGB frames.", show_default=False)
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with Ego4D's videos.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the negative that is taken of each record.")] = 42,
) -> None:
    """Write EgoPlan-IT as preference data for other trainers: images, prompt, chosen and rejected action.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens EPIC-KITCHENS --out trl`
    """
    from lmms_egoplan.benchmarks.egoplan.tuning.export import export_preferences

    count = export_preferences(data, format, out, epic_kitchens, ego4d, seed)
    typer.echo(f"{count} pairs written to {out}")


COMMANDS = {"train egoplan": train, "merge": merge, "data export egoplan-it": export}
