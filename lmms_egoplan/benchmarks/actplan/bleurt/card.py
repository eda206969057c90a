"""The model card of a trained classifier."""

from collections.abc import Mapping
from typing import Any

_ORDER = {"mixed": "in any order", "gold-first": "a gold plan first"}
_SHUFFLED = {
    "activity": "the steps of a gold plan of the same activity in another order",
    "instance": "its own steps in another order",
}
_CARD = """\
---
library_name: transformers
tags: [actplan-1k]
---
# Plan classifier for ActPlan-1K

Says whether a plan for a household activity is correct, given a gold plan of the same instance (ActPlan-1K, sec.
4.2.2): `[CLS] gold [SEP] candidate [SEP]`, dropout 0.1 and a linear layer on the last hidden vector of `[CLS]`. Use it
with `LMMS_EGOPLAN_BLEURT` or `lmms-egoplan evaluate bleurt`.

## Data

ActPlan-1K's published plans with human correctness labels: {train_instances} training instances, {left_out} of them
without a pair to learn from; {val_plans} labelled plans of {val_instances} val instances. Instances of activities
without a split: {unknown}. Every epoch shows each training instance once, with a pair drawn for it: 30 % positive (two
different plans out of the gold plans and both models' correct plans, {order}), 50 % a gold plan with a wrong plan, else
a gold plan with {shuffled}; what an instance lacks gives way to another kind. On val each plan stands behind the gold
plan that was not made from that model's plan.

## Settings

Encoder {encoder}, {epochs} epochs, learning rate {learning_rate} (constant), batch size {batch_size}, {max_length}
tokens a pair (the longer plan is cut first), seed {seed}, AdamW with weight decay 0.01, gradient norm at most 5,
on {device} in {precision}; {seconds} s of training. Positive pairs: `{positives}`. Shuffled gold plans: of the same
`{shuffled_of}`. `evaluate bleurt` and the scores of runs put a gold plan first whichever was chosen.

## Scores

Epoch {best_epoch} of {epochs}, the one with the highest accuracy on val over both models' plans (the paper says "best
score on val"). Accuracy on the first epoch's training pairs: {train}. On val:

| plans of | plans | accuracy | majority class | MCC | correct: right / wrong | wrong: right / wrong | pairs cut |
|---|---|---|---|---|---|---|---|
{rows}

The last columns count the plans that the classifier calls correct and those that it calls wrong, and the pairs that it
saw cut. An accuracy says something only beyond the majority class's. Of the training pairs, {train_truncated} of
{train_pairs} were cut.

## Beside the paper

The paper calls the first sentence of a pair the gold plan's, and then mixes gold and correct plans in positive pairs
without an order (sec. 4.2.2): `mixed` and `gold-first` are these two readings. Its shuffled gold plans are "with same
activity"; `instance` is what this command did before it had the choice.

Table 5's MCC and val accuracy can be set beside these scores only where the encoder is Elron/bleurt-large-512 (BLEURT)
or Elron/bleurt-base-128 (BLEURT-base), the data are the published plans and the settings those of sec. 4.2.2; the
paper does not give the shares of the kinds of pairs, nor by which score on val it chose the epoch. Scores of an epoch
that was chosen on val flatter the classifier, there as here. For Table 5's test accuracy: `lmms-egoplan evaluate bleurt
--split test`, with a file that has the test activities' plans.
"""


def model_card(scores: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        scores: as `train_bleurt` returns them.
    """
    settings, data, train = scores["settings"], scores["data"], scores["train"]
    return _CARD.format(
        **{name: value for name, value in settings.items() if name not in ("bf16", "shuffled")},
        order=_ORDER[settings["positives"]],
        shuffled=_SHUFFLED[settings["shuffled"]],
        shuffled_of=settings["shuffled"],
        train_instances=data["train_instances"],
        left_out=len(data["without_pair"]),
        val_plans=data["val_plans"],
        val_instances=data["val_instances"],
        unknown=sum(data["unknown_activities"].values()),
        precision="mixed precision (bf16)" if settings["bf16"] else "single precision",
        seconds=scores["seconds"],
        best_epoch=scores["best_epoch"],
        train=f"{train['accuracy']:.1%}",
        rows="\n".join(_row(model, values) for model, values in scores["val"].items()),
        train_truncated=train["truncated"],
        train_pairs=train["plans"],
    )


def _row(model: str, values: Mapping[str, Any]) -> str:
    mcc = "n/a" if values["mcc"] is None else f"{values['mcc']:.3f}"
    return (
        f"| {model} | {values['plans']} | {values['accuracy']:.1%} | {values['majority']:.1%} | {mcc} | "
        f"{values['true_correct']} / {values['false_correct']} | {values['true_wrong']} / {values['false_wrong']} | "
        f"{values['truncated']} |"
    )
