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
            help="Samples of a run: `*_samples_egoplan_test.jsonl`, `*_samples_egoplan_val.jsonl`; or its predictions "
            "file.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The submission to write, JSON.", show_default=False)],
    split: Annotated[
        Literal["val", "test"] | None,
        typer.Option(
            help="The split. Without it, that in the name of the samples file; test if there is none.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a submission for EgoPlan's leaderboard, which takes a file of each split, val and test.

    The file is a JSON list of sample_id and label, each id of the split exactly once. The split must be prepared, with
    all of its questions. The samples come from `--tasks egoplan_test` or `--tasks egoplan_val` with `--log_samples`.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_val.jsonl
    --out submission_val.json`
    """
    from lmms_egoplan.benchmarks.egoplan import submission
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        predictions = submission.read_predictions(samples)
        split = split or submission.split_of(samples)
        labels = submission.build_submission(predictions, submission.split_ids(split), split)
        submission.write_submission(out, labels)
    except (LmmsEgoplanError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{len(labels)} labels of the {split} split written to {out}")
