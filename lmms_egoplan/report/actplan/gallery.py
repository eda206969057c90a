"""ActPlan-1K's instances and plans in the gallery."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.actplan.instances import parse_id
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.report.actplan.answers import key_of
from lmms_egoplan.report.document import Alignment, Images, ShownAnswer, Verdict
from lmms_egoplan.report.prepared import with_images
from lmms_egoplan.report.scores import Answer, Key


def question_fields(
    key: Key,
    answers: Sequence[Answer],
    prepared: Mapping[Key, tuple[str, Images]],
    *,
    saw_images: bool,
) -> dict[str, Any]:
    """Return the fields of an instance.

    Only lm-eval logs the task description; no harness logs the images.

    Args:
        key: The instance's key.
        answers: The answers, at least one.
        prepared: Task descriptions and images of the prepared instances.
        saw_images: True if a run's model was shown the images.
    """
    first = answers[0]
    logged = next((answer.doc for answer in answers if answer.doc), {}).get("task_description")
    text, images = prepared.get(
        key, (logged or f"{first.id}: task description not available", None)
    )
    facts = {
        "setting": first.groups["setting"],
        "activity type": first.groups["activity_type"],
        "activity": first.cluster,
        "length of gold plan 1": first.groups["length"],
    }
    instance = parse_id(first.id)
    if instance:
        facts["scene"] = instance.scene
    golds = {}
    for gold_plan, steps in enumerate(first.record.golds, 1):
        if steps:
            golds[_gold_name(gold_plan)] = tuple(steps)
    return {
        "question": text.strip(),
        "facts": facts,
        "references": {name: "\n".join(steps) for name, steps in golds.items()},
        "golds": golds,
        "images": images if saw_images else None,
    }


def _gold_name(number: int) -> str:
    """Return the name of gold plan 1 or 2."""
    return f"Gold plan {number}"


def shown_answer(answer: Answer) -> ShownAnswer:
    """Return a plan with its verdict, compared with each gold plan."""
    score = answer.record.score
    text = "\n".join(score.official) or "(nothing)"
    if score.parsed != score.official:
        text += f"\n\nRead as {len(score.parsed)} steps:\n" + "\n".join(score.parsed)
    return ShownAnswer(
        _verdict(answer),
        text,
        rating="; ".join(_ratings(answer)),
        steps=tuple(score.official),
        alignments=tuple(_alignments(answer)),
    )


def _alignments(answer: Answer) -> Iterator[Alignment]:
    """Yield the comparison of the official reading with each gold plan that exists."""
    score = answer.record.score
    # Blank lines of a gold plan count as steps in this reading.
    gold_lengths = score.reference_lines or score.reference_lengths
    norms = [answer.scores["lcs_norm"], answer.scores["lcs_norm_gold_2"]]
    all_pairs = score.alignments or [None] * len(score.lcs_each)
    for number, (length, norm) in enumerate(zip(score.lcs_each, norms, strict=False), 1):
        steps = gold_lengths[number - 1]
        if length is None or norm is None or steps is None:
            continue
        pairs = all_pairs[number - 1]
        yield Alignment(
            gold=_gold_name(number),
            length=length,
            steps=max(len(score.official), steps),
            norm=norm,
            pairs=None if pairs is None else tuple((plan, gold) for plan, gold in pairs),
        )


def _verdict(answer: Answer) -> Verdict:
    """Return the classifier's verdict.

    Without a classifier, a plan is right if its normalised LCS is 1, and wrong if it is 0.
    """
    score = answer.record.score
    norm = answer.scores["lcs_norm"]
    if score.bleurt is not None:
        return "right" if score.bleurt else "wrong"
    if norm is None:
        return "unscored"
    if norm == 1:
        return "right"
    return "wrong" if norm == 0 else "partly"


def _ratings(answer: Answer) -> Iterator[str]:
    """Yield the scores of a plan in words, without those of its `_alignments`."""
    score = answer.record.score
    scores = answer.scores
    if score.parsed != score.official and scores["lcs_norm_parsed"] is not None:
        yield f"normalised LCS of the parsed plan {scores['lcs_norm_parsed']:.3f} of 1"
    if score.form_validity is not None:
        yield f"form validity {score.form_validity:.2f}"
    if score.bleurt is not None:
        text = f"{'correct' if score.bleurt else 'wrong'} by the classifier"
        if score.bleurt_probability is not None:
            text += f" ({score.bleurt_probability:.2f})"
        yield text
    if score.truncated:
        yield "cut off"


def read_rows() -> dict[Key, tuple[str, Images]]:
    """Read task descriptions and images of the prepared instances."""
    prepared = {}
    for row, images in with_images(ACTPLAN.load(SPLIT), "images"):
        key = key_of(row["id"], row["gold_plan_1"], row["gold_plan_2"])
        prepared[key] = (row["task_description"], images)
    return prepared
