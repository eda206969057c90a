"""``lmms-egoplan submit``: submission files out of a run's logs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.cli.former_options import accepting

app = typer.Typer(
    help="""Make a submission file from a run's samples.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_test.jsonl --out submission.json`
    """,
    no_args_is_help=True,
)


@app.command("egoplan", cls=accepting("--samples"))
def egoplan(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help="`*_samples_egoplan_test.jsonl` of a run, or its predictions file.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The submission to write, JSON.", show_default=False)],
    split: Annotated[Literal["val", "test"], typer.Option(help="The prepared split it is for.")] = "test",
) -> None:
    """Write EgoPlan's submission: a list of sample_id and label, each id of the split exactly once.

    The samples come from `lmms-eval --tasks egoplan_test --log_samples --output_path runs ...`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_test.jsonl --out submission.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission
    from lmms_egoplan.benchmarks.egoplan.prepared import PREPARED
    from lmms_egoplan.storage import StorageError

    try:
        predictions = submission.read_predictions(samples)
        labels = submission.build_submission(predictions, PREPARED.load(split)["sample_id"])
        submission.write_submission(out, labels)
    except (submission.SubmissionError, StorageError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{len(labels)} labels written to {out}")
