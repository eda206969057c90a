"""``lmms-egoplan train egoplan``, ``train demo``, ``merge egoplan`` and ``data export egoplan-it``."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from lmms_egoplan.harnesses.requirements import require


def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the adapter and its model card.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="EgoPlan-IT: `EgoPlan_IT.json`. Without it, that of the configuration."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint to tune: any vision-language model of transformers.")
    ] = None,
    epic_kitchens: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with EPIC-KITCHENS' RGB frames.")
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with Ego4D's videos, for data of one's own.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings, YAML. A run writes all of its own to `config.yaml`. Options of the command line go first.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in DIR from its last checkpoint.")
    ] = False,
    recognition: Annotated[
        bool | None,
        typer.Option("--recognition", help="Mix in action recognition on the same clips. This is the default."),
    ] = None,
    no_recognition: Annotated[bool, typer.Option("--no-recognition", help="Leave action recognition out.")] = False,
    recognition_data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Action recognition as `data build egoplan` writes it. Default: made of DATA."
        ),
    ] = None,
    instructions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Instruction data to mix in, in the layout of LLaVA, MiniGPT-4 or VideoChat. Repeat for several.",
        ),
    ] = None,
    instruction_media: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Their images and videos. Default: the folder of each file.")
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
        bool, typer.Option("--no-check", help="Do not read all images and videos before the first update.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: 2, as in the paper.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates, in place of epochs.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples an update, over all processes. Default: 16.")
    ] = None,
    per_device_batch_size: Annotated[
        int | None, typer.Option("--per-device", min=1, help="Samples a pass of a process. Default: 2.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Default: 3e-5.")] = None,
    gradient_checkpointing: Annotated[
        bool | None, typer.Option("--checkpointing", help="Gradient checkpointing: less memory, a third more time.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of weights, order, negatives and dropout. Default: 42.")
    ] = None,
) -> None:
    """Tune a model on EgoPlan-IT with the paper's contrastive loss. The defaults are the published settings.

    Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct
    --epic-kitchens EPIC-KITCHENS --out tuned`

    Several GPUs: `torchrun --nproc-per-node 8 -m lmms_egoplan train egoplan` and the same options. Then evaluate:
    `lmms-eval --tasks egoplan_val_clips --model hf_vlm --model_args pretrained=NAME,peft=tuned`.

    The four ablations of the paper's Table 3 are `--no-lora`, `--no-contrastive`, `--no-instructions` and
    `--no-recognition`.
    """
    from lmms_egoplan.training.egoplan.settings import RECOGNITION, EgoPlanTuning
    from lmms_egoplan.training.egoplan.tuning import tune_egoplan
    from lmms_egoplan.training.settings import read_settings

    if no_recognition and (recognition or recognition_data):
        raise typer.BadParameter("given together with --recognition", param_hint="--no-recognition")
    if no_instructions and instructions:
        raise typer.BadParameter("given together with --instructions", param_hint="--no-instructions")
    given = {
        name: value for name, value in context.params.items() if name in EgoPlanTuning.model_fields and value != ()
    }
    if recognition_data:
        given["recognition"] = True
    given |= {name: False for name in ("recognition", "contrastive", "check") if context.params[f"no_{name}"]}
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
    tune_egoplan(settings, out, resume, partial(typer.echo, err=True))


def merge(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="Folder that `train egoplan` wrote.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the checkpoint.")],
    model: Annotated[str | None, typer.Option(help="The base. Default: that which the adapter names.")] = None,
) -> None:
    """Add an adapter to its base: a plain checkpoint, for vLLM, SGLang and all that loads transformers' models.

    Example: `lmms-egoplan merge egoplan tuned --out checkpoint`
    """
    from lmms_egoplan.training.adapter import write_merged

    write_merged(adapter, model, out)
    typer.echo(f"Written to {out}")


def export(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="EgoPlan-IT: `EgoPlan_IT.json`.")],
    format: Annotated[Literal["trl", "ms-swift"], typer.Option(help="The trainer that reads it.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the samples and their images.")],
    epic_kitchens: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with EPIC-KITCHENS' RGB frames.")
    ] = None,
    ego4d: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with Ego4D's videos.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the negative that is taken of each record.")] = 42,
) -> None:
    """Write EgoPlan-IT as preference data for other trainers: images, prompt, chosen and rejected action.

    Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl --epic-kitchens EPIC-KITCHENS --out trl`
    """
    from lmms_egoplan.training.egoplan.export import export_preferences

    count = export_preferences(data, format, out, epic_kitchens, ego4d, seed)
    typer.echo(f"{count} pairs written to {out}")


def demo(
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for all files of the demo; those of an earlier demo are replaced."),
    ] = Path("lmms-egoplan-training-demo"),
) -> None:
    """Show tuning: a tiny model learns to plan in rendered scenes, in 6 minutes.

    The model is trained on captions of rendered scenes, then tuned on answers and wrong answers to questions about
    their next steps. lmms-eval measures it before and after, with the video and without it.

    Example: `lmms-egoplan train demo --out /tmp/demo`
    """
    from lmms_egoplan.training.egoplan.demo import run_learning_demo

    require("lmms_eval", "lmms-eval", "lmms-egoplan")
    require("peft", "peft", "lmms-egoplan[train]")
    run_learning_demo(out, Console())
