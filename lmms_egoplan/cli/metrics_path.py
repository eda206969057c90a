"""``lmms-egoplan metrics-path``: where the library evaluate finds the metrics."""

import typer

from lmms_egoplan.paths import METRICS


def metrics_path() -> None:
    """Print the folder of the metrics for Hugging Face's library evaluate: `actplan_lcs` and `actplan_classifier`.

    Example, in Python: `evaluate.load("FOLDER/actplan_lcs").compute(predictions=[...], references=[...])`, where
    FOLDER is what this command prints.
    """
    typer.echo(METRICS)
