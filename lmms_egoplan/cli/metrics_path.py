"""``lmms-egoplan metrics-path``: where the library evaluate finds the metrics."""

import typer

from lmms_egoplan.paths import METRICS


def metrics_path() -> None:
    """Print the folder of the metrics for Hugging Face's library evaluate: `actplan_lcs` and `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...], references=[...])`
    """
    typer.echo(METRICS)
