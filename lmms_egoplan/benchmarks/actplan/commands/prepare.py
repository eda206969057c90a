"""``lmms-egoplan data prepare actplan``: the instances of the full release."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lmms_egoplan.prepared_counts import SkipMissing, print_counts
from lmms_egoplan.storage import split_dir, summary_path

# Instances that a line names.
_NAMED = 5


def prepare(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with `<scene>/<activity>/<n>/sample_<k>/`.")],
    skip_missing: SkipMissing = False,
    bddl: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the activities' BDDL problems, for instances without `problem<n>.bddl` beside the task "
            "description: bddl/activity_definitions of ActPlan-1K's repository. The goal check needs them.",
        ),
    ] = None,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The folder is called `annotation` in the full release. The release is linked on
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    from lmms_egoplan.benchmarks.actplan.prepare import LABELS, prepare_actplan

    summary = prepare_actplan(source, skip_missing, bddl)
    print_counts(summary["counts"], LABELS, "source", "source")
    _print_gaps(summary)


def _print_gaps(summary: dict[str, Any]) -> None:
    prepared, size, missing = summary["questions"], summary["split_size"], len(summary["missing"])
    path = summary_path(summary["benchmark"], summary["split"])
    typer.echo(
        f"Gold plan 1 is missing in {summary['without_gold_plan_1']} of {prepared} prepared instances, gold plan 2 in "
        f"{summary['without_gold_plan_2']}; mean steps are gold plan 1's, the paper does not say which it counts."
    )
    if missing:
        typer.echo(
            f"Left out: {size - prepared} instances ({missing} folders, listed with reasons under missing in {path}). "
            f"Results will cover {prepared} of {size} instances."
        )
    if outside := summary["images_outside"]:
        named = ", ".join(f"{entry['folder']} ({entry['images']})" for entry in outside[:_NAMED])
        more = f" and {len(outside) - _NAMED} more, all listed under images_outside in {path}"
        typer.echo(
            f"Not 2 to 5 images, as the paper states for an instance: {len(outside)} of {size} instances: {named}"
            f"{more if len(outside) > _NAMED else ''}. They are prepared like the others."
        )
    if without := summary["without_bddl"]:
        reasons = summary["bddl_missing"]
        more = f"; {len(reasons)} reasons, all listed under bddl_missing in {path}" if len(reasons) > 1 else ""
        typer.echo(f"Without a BDDL problem, so without a goal check: {without} of {prepared}: {reasons[0]}{more}")
    typer.echo(f"Written to {split_dir(summary['benchmark'], summary['split'])}")
