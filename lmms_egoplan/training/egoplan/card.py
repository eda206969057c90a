"""The model card of a tuned model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_egoplan.training.egoplan.settings import PLAN, EgoPlanTuning

_CARD = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")


def model_card(settings: EgoPlanTuning, summary: Mapping[str, Any]) -> str:
    """Write what was done, and with what result."""
    joining = ", ".join(summary["joining"]) or "nothing else"
    adapted = summary["adapted"]
    seen = summary["steps"] * settings.batch_size
    records = summary["held_out"] + summary["samples"][PLAN]
    trained = (
        f"LoRA (r {settings.lora.r}, alpha {settings.lora.alpha}) on {sum(adapted.values())} layers of the language "
        f"model ({', '.join(f'{count} {name}' for name, count in adapted.items())}), and {joining} as a whole"
        if settings.lora
        else f"{joining} as a whole, without LoRA: the language model is the base's"
    )
    accuracies = [entry["eval_accuracy"] for entry in summary["history"] if "eval_accuracy" in entry]
    return _CARD.format(
        **settings.model_dump()
        | {name: summary[name] for name in ("steps", "held_out", "device", "precision", "processes", "seconds")},
        trained=trained,
        loss="mean NLL of the answers, and mean of s_neg - s_pos over the samples that violate it, taken in each group "
        f"of {settings.contrastive_group} samples (`contrastive_group`), then over the groups"
        if settings.contrastive
        else "mean NLL of the answers, without the contrastive part",
        samples=", ".join(
            f"{summary['samples'][name]} {name} ({share:.1%} of the {seen} seen)"
            for name, share in summary["shares"].items()
        ),
        held_out_share=f"{summary['held_out'] / records:.1%}",
        plural="" if summary["processes"] == 1 else "es",
        trainable=f"{summary['trainable']:,}",
        parameters=f"{summary['parameters']:,}",
        accuracy=f"Accuracy on the held-out questions, ranked by likelihood: {accuracies[0]:.1%} at first, "
        f"{accuracies[-1]:.1%} at the end."
        if accuracies
        else "No questions were held out.",
    )
