"""``lmms-egoplan train egoplan``, ``train demo``, ``merge egoplan`` and ``data export egoplan-it``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lmms_egoplan.harnesses.requirements import require
from lmms_egoplan.training.egoplan.demo import run_learning_demo
from lmms_egoplan.training.egoplan.export import Trainer, export_preferences
from lmms_egoplan.training.egoplan.settings import read_settings


def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the adapter and its model card.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="EgoPlan-IT: `EgoPlan_IT.json`. Without it, that of the configuration."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint to tune: any vision-language model of transformers.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings, YAML. A run writes all of its own to `config.yaml`.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting in place of the configuration's, such as `epic_kitchens=DIR` or `epochs=1`. Repeat for "
            "several.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in DIR from its last checkpoint.")
    ] = False,
    no_lora: Annotated[
        bool,
        typer.Option(
            "--no-lora", help="Leave the language model as it is: train only what joins it with the image encoder."
        ),
    ] = False,
    no_contrastive: Annotated[
        bool, typer.Option("--no-contrastive", help="Leave out the contrastive loss: learn the answers alone.")
    ] = False,
    no_instructions: Annotated[
        bool, typer.Option("--no-instructions", help="Leave out the configuration's instruction data.")
    ] = False,
    no_recognition: Annotated[bool, typer.Option("--no-recognition", help="Leave action recognition out.")] = False,
) -> None:
    """Tune a model on EgoPlan-IT with the paper's contrastive loss. The defaults are the published settings.

    Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct
    --set epic_kitchens=EPIC-KITCHENS --out tuned`

    Several GPUs: `torchrun --nproc-per-node 8 -m lmms_egoplan train egoplan` and the same options. Then evaluate:
    `lmms-eval --tasks egoplan_val_clips --model hf_vlm --model_args pretrained=NAME,peft=tuned`.

    The four ablations of the paper's Table 3 are `--no-lora`, `--no-contrastive`, `--no-instructions` and
    `--no-recognition`.
    """
    from lmms_egoplan.training.egoplan.tuning import tune_egoplan

    values = {name: value for name, value in (("data", data), ("model", model)) if value is not None}
    ablations: list[tuple[bool, str, Any]] = [
        (no_lora, "lora", None),
        (no_contrastive, "contrastive", False),
        (no_instructions, "instructions", []),
        (no_recognition, "recognition", False),
    ]
    settings = read_settings(config, values, assignments or ())
    settings = settings.changed({name: value for is_chosen, name, value in ablations if is_chosen})
    tune_egoplan(settings, out, resume=resume)


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
    format: Annotated[Trainer, typer.Option(help="The trainer that reads it.")],
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
    require("lmms_eval", "lmms-eval", "lmms-egoplan")
    require("peft", "peft", "lmms-egoplan[train]")
    run_learning_demo(out, Console())
