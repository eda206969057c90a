"""Define ActPlan-1K's commands: data prepare, score, judge, evaluate and metrics-path."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.options import EstimateOnly, MaxCost, MaxRequests, Prices, Retry
from lmms_egoplan.options import (
    Instances,
    LabelledPlans,
    OutFile,
    OutFolder,
    Overwrite,
    SkipMissing,
    Splits,
)
from lmms_egoplan.outputs import output_file, output_folder


def prepare(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder that contains `<scene>/<activity>/<n>/sample_<k>/`."
        ),
    ],
    skip_missing: SkipMissing = False,
    bddl: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Folder of activities (bddl/activity_definitions in ActPlan-1K's repository), "
                "whose counterfactual ones Fig. 4 shows, too."
            ),
        ),
    ] = None,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The full release calls this folder `annotation`. Find the link to the release at
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
    from lmms_egoplan.report.actplan.figure_4 import described_activities, write_prepared_figure_4
    from lmms_egoplan.report.actplan.prepared import print_prepared

    described = None if bddl is None else described_activities(bddl)
    summary = prepare_actplan(source, skip_missing=skip_missing)
    write_prepared_figure_4(described)
    print_prepared(summary)


def score(
    plans: Annotated[
        Path,
        typer.Argument(
            metavar="PLANS",
            help=(
                'JSON lines: {"id": ..., "candidate": ..., "references": [...]}. Each plan is a '
                "text; references are gold plans 1, 2, ... Optional human labels: "
                '"correct" and "commonsense". The authors\' finetuning_data.jsonl also works.'
            ),
        ),
    ],
    out: OutFile,
    overwrite: Overwrite = False,
) -> None:
    """Score plans for ActPlan-1K's activities against their gold plans.

    The model's thinking is removed first. A reply that ends inside a thought has no plan.

    If people labelled plans, their verdicts are also drawn by model and length next to FILE (Fig.
    5).

    An id such as Beechwood_0_int/making_tea/0/sample_0 determines the setting and the activity
    type. Set the sentence encoder with LMMS_EGOPLAN_ENCODER and a classifier with
    LMMS_EGOPLAN_BLEURT. By default, the classifier is the one that `train actplan-bleurt` wrote
    without --out, if any.

    Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """
    from lmms_egoplan.benchmarks.actplan.plans import read_plans
    from lmms_egoplan.report.actplan.figure_5 import figure_5_paths, write_figure_5
    from lmms_egoplan.report.actplan.score_tables import print_scores
    from lmms_egoplan.report.actplan.stored_plans import score_stored

    with output_file(out, [plans], overwrite=overwrite, also=figure_5_paths(out)):
        scores = score_stored(read_plans(plans))
        write_whole(out, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        print_scores(scores["summary"])
        typer.echo(f"Written to {out}")
        write_figure_5(out, scores["samples"])


def judge(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help=(
                "Plans in the format of `score actplan`. Plans that people called correct are "
                "skipped. If you pass `plans.jsonl` from `annotate export`, the judge is compared "
                "with the annotators' error types."
            ),
        ),
    ],
    out: OutFolder,
    instances: Instances = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Have a judge mark the six types of errors in plans, except those that people called correct.

    Set the endpoint with LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY, and the model
    with LMMS_EGOPLAN_JUDGE_MODEL. It must read images (default: gpt-4o-2024-11-20). Replies are
    stored as they arrive: to resume an interrupted run, repeat the command.

    Example: `lmms-egoplan judge actplan labels/plans.jsonl --out judged-errors`
    """
    from lmms_egoplan.benchmarks.actplan.instances import instances_of
    from lmms_egoplan.benchmarks.actplan.plans import read_plans
    from lmms_egoplan.jsonl import json_lines
    from lmms_egoplan.judging.prices import read_prices
    from lmms_egoplan.judging.printing import finish_estimate, print_cost
    from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
    from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
    from lmms_egoplan.report.actplan.error_judge import JUDGED_ERRORS, judge_errors
    from lmms_egoplan.report.actplan.error_table import print_errors
    from lmms_egoplan.report.samples import MARK, write_folder

    with output_folder(out, "judge actplan", [MARK, JUDGED_ERRORS]):
        options = LlmOptions(
            retry_rejected=retry_rejected,
            is_estimate=estimate,
            prices=read_prices(prices),
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_MODEL, usage=LlmUsage(options))
        stored = [(plan.model or path.stem, plan) for path in plans for plan in read_plans(path)]
        wrong = [(model, plan) for model, plan in stored if not plan.labels["correct"]]
        if not wrong:
            raise LmmsEgoplanError(
                f"people called all {len(stored)} plans correct; nothing to judge"
            )
        judged = judge_errors(
            wrong, instances_of({plan.plan.id for _, plan in wrong}, instances), settings
        )
        finish_estimate(settings.usage)
        lines = json_lines(plan.model_dump() for plan in judged)
        write_folder(out, "actplan", {JUDGED_ERRORS: lines})
        print_errors(judged)
        typer.echo(
            f"Skipped because people called them correct: {len(stored) - len(wrong)} of "
            f"{len(stored)} plans"
        )
        typer.echo(f"Written to {out / JUDGED_ERRORS}")
        print_cost(settings.usage)
        unjudged = [plan for plan in judged if plan.judge is None]
        if unjudged:
            raise LmmsEgoplanError(
                f"{len(unjudged)} of {len(judged)} plans are not judged, for example "
                f"{unjudged[0].id} of {unjudged[0].model}: {unjudged[0].error}. Repeat the command "
                "to retry plans without a reply; add --retry-rejected to also retry unusable "
                "replies"
            )


def evaluate_classifier(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Classifier folder written by `lmms-egoplan train actplan-bleurt`.",
        ),
    ],
    plans: LabelledPlans,
    activities: Splits,
    split: Annotated[Literal["val", "test"], typer.Option(help="Split to evaluate.")],
) -> None:
    """Measure a classifier's agreement with people on ActPlan-1K's plans, next to the paper's Table
    5.

    Compare each accuracy with those of the rules that need no classifier: "majority" always gives
    the more frequent label, and "right if equal to a gold plan" calls exactly the plans correct
    that equal a gold plan of their instance. The pair's gold plan is the one that the classifier
    sees; the authors pair a plan with the other model's gold plan.

    Example: `lmms-egoplan evaluate actplan-bleurt classifier finetuning_data.jsonl activities.txt
    --split val`
    """
    from lmms_egoplan.benchmarks.actplan.classifier import load_classifier
    from lmms_egoplan.benchmarks.actplan.classifier_agreement import evaluate_bleurt
    from lmms_egoplan.report.actplan.classifier_table import print_agreement

    classifier = load_classifier(model)
    scores, unknown = evaluate_bleurt(classifier, plans, activities, split)
    for activity, count in unknown.items():
        typer.echo(
            f"Skipped: {count} instances of {activity}, which is not listed in {activities}",
            err=True,
        )
    print_agreement(classifier.name, scores, split)
    typer.echo(f"Trained with {classifier.pairs}")


def metrics_path() -> None:
    """Print the folder that contains the Hugging Face evaluate metrics `actplan_lcs` and
    `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...],
    references=[...])`
    """
    from lmms_egoplan.benchmarks import actplan

    typer.echo(Path(actplan.__file__).resolve().with_name("evaluate_metrics"))
