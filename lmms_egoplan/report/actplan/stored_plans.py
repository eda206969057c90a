"""Score plans from any source, for ``lmms-egoplan score actplan``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.actplan.classifier import classifier_path
from lmms_egoplan.benchmarks.actplan.instances import activity_type, parse_id
from lmms_egoplan.benchmarks.actplan.metrics import BREAKDOWNS, by_group, length_bin
from lmms_egoplan.benchmarks.actplan.plans import VERDICTS, StoredPlan
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore, score_plans


def score_stored(stored: Sequence[StoredPlan]) -> dict[str, Any]:
    """Score plans with the configured encoder and classifier.

    Returns:
        ``samples`` and ``summary``. Undefined values are None.

        Each sample has:

        - `PlanScore.measures` and the fields of `PlanScore`
        - ``lengths``: steps in the official reading of ``candidate`` and of ``references``
        - ``length``: the bin of the first reference's length
        - setting, activity type, labels and model, if known

        The summary has:

        - ``plans``, ``encoder``, ``classifier``, and the means of all measures and labels
        - ``labelled``: number of plans with each label
        - ``repeated_ids``: plans whose id and model already occurred
        - ``empty``: plans without text; ``ends_in_thought``: those of them that end inside a
          thought
        - ``unparsed``: plans without a step in the parsed reading
        - ``by_...``: the same means by setting, length of the first reference, activity type and
          model

    Raises:
        LmmsEgoplanError: One of the two models cannot be loaded.
    """
    scores = score_plans([entry.plan for entry in stored], classifier=classifier_path())
    samples = [_sample(entry, score) for entry, score in zip(stored, scores, strict=True)]
    names = (*scores[0].measures(), "bleurt_correct", *VERDICTS)
    classifier = scores[0].classifier
    if classifier:
        classifier = f"{classifier}: {scores[0].classifier_name}"
    summary = {
        **_summary(samples, names),
        "repeated_ids": len(stored) - len({(entry.plan.id, entry.model) for entry in stored}),
        "empty": sum(not score.official for score in scores),
        "ends_in_thought": sum(entry.ends_in_thought for entry in stored),
        "unparsed": sum(not score.parsed for score in scores),
        "encoder": scores[0].encoder,
        "classifier": classifier,
    }
    for name in (*BREAKDOWNS, "model"):
        groups = by_group([sample for sample in samples if name in sample], name)
        if groups:
            summary[f"by_{name}"] = {
                group: _summary(members, names) for group, members in groups.items()
            }
    return {"samples": samples, "summary": summary}


def _sample(stored: StoredPlan, score: PlanScore) -> dict[str, Any]:
    """Return the record of one plan in the file of scores; the order of its fields is fixed."""
    fields = asdict(score)
    lines = fields.pop("reference_lines")
    steps = fields.pop("reference_lengths")
    sample: dict[str, Any] = {"id": score.id}
    if stored.model is not None:
        sample["model"] = stored.model
    sample |= score.measures()
    sample["lengths"] = {"candidate": len(score.official), "references": lines or steps}
    sample |= fields
    instance = parse_id(stored.plan.id)
    if instance is not None:
        sample["setting"] = instance.setting
        sample["activity_type"] = activity_type(instance.activity)
    sample["length"] = length_bin(score.reference_lengths[0])
    for name, label in stored.labels.items():
        if label is not None:
            sample[name] = label
    return sample


def _summary(samples: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Count plans and labels, and average each measure over the plans for which it is defined."""
    summary: dict[str, Any] = {"plans": len(samples)}
    num_defined: dict[str, int] = {}
    for name in names:
        field = "bleurt" if name == "bleurt_correct" else name
        values = [sample.get(field) for sample in samples]
        defined = [float(value) for value in values if value is not None]
        summary[name] = fmean(defined) if defined else None
        num_defined[name] = len(defined)
    summary["labelled"] = {name: num_defined[name] for name in VERDICTS}
    return summary
