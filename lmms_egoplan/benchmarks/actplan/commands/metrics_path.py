"""``lmms-egoplan metrics-path actplan``."""

from pathlib import Path

import typer

METRICS = Path(__file__).resolve().parents[1] / "evaluate_metrics"


def metrics_path() -> None:
    """Print the folder of the metrics for Hugging Face's library evaluate: `actplan_lcs` and `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...], references=[...])`
    """
    typer.echo(METRICS)
