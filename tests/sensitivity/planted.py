"""Conditions of a sensitivity run, and models whose replies follow a planted rule."""

import random
from dataclasses import replace

from benchmarks.egoplan.synthetic import egoplan_docs
from lmms_egoplan.benchmarks.egoplan.presets import rotated
from lmms_egoplan.sensitivity.conditions import Condition, PromptVariant

LETTERS = "ABCD"
OFFICIAL = PromptVariant("official", "official", "official", "official")
RANKED = replace(OFFICIAL, ranked=True)
READABLE = "<answer>{letter}</answer> \\boxed{{{letter}}}"
"""A reply in which every reader reads the letter."""
PARSERS = (
    "first_letter_lmms_eval",
    "first_capital",
    "boxed",
    "last_bracketed",
    "answer_tag",
    "clear",
)
SHIFTS = (1, 2, 3)


def seed_text(variant):
    """Return a variant as part of a seed. The table in perf/README.md was drawn with this name."""
    return f"Asked{str(variant).removeprefix('PromptVariant')}"


def base(parser="first_letter"):
    return Condition("base", "official", OFFICIAL, parser)


def parsers(*names):
    return [Condition("parser", name, OFFICIAL, name) for name in names]


def orders():
    return [
        Condition("option order", f"rotated by {n}", replace(OFFICIAL, shift=n), "first_letter")
        for n in SHIFTS
    ]


def fields():
    return [Condition(field, "flageval", replace(OFFICIAL, **{field: "flageval"}), "first_letter")
            for field in ("prompt", "media", "observation", "decoding")]  # fmt: skip


def scorings():
    return [Condition("scoring", rule, RANKED, rule) for rule in ("mean", "sum", "bytes")]


def presets():
    asked = replace(
        OFFICIAL, prompt="flageval", media="flageval", observation="flageval", decoding="flageval"
    )
    return [
        Condition("preset", "official", OFFICIAL, "first_letter"),
        Condition(
            "preset", "lmms-eval-0.7.3", replace(OFFICIAL, media="lmms-eval-0.7.3"), "first_letter"
        ),
        Condition("preset", "flageval", asked, "first_letter"),
    ]


def questions(count=300):
    """Return questions by sample id, 7 to a video. Option A is right more often than the others."""
    chance = random.Random(1)
    docs = {}
    for doc in egoplan_docs(count):
        gold = chance.choice("AAABCD")
        docs[str(doc["sample_id"])] = doc | {"golden_choice_idx": gold}
    return docs


def content(docs, accuracy=0.6, seed=0, text="{letter}"):
    """Make a model that knows the same answers however it is asked, and writes their letter in
    `text`.
    """
    chance = random.Random(seed)
    known = {}
    for key, doc in docs.items():
        wrong = [letter for letter in LETTERS if letter != doc["golden_choice_idx"]]
        known[key] = (
            doc["golden_choice_idx"] if chance.random() < accuracy else chance.choice(wrong)
        )

    def reply(asked, key):
        position = LETTERS.index(known[key])
        if asked.ranked:
            return tuple((0.01 if index == position else 2.0 + index, 4) for index in range(4))
        options = rotated(docs[key], asked.shift)["choices"]
        assert len(set(options)) == 4
        return text.format(letter=LETTERS[options.index(docs[key]["choices"][position])])

    return reply


def always(text):
    return lambda asked, key: text


def noisy(docs, change=0.2, lower=(), seed=0):
    """Make a model that draws a share of its answers anew for each prompt, media, order and
    decoding.

    Args:
        change: Share of answers that are drawn anew, with the same probability of being right.
        lower: Share of answers that are also replaced by random ones, for the fields that differ
            from the base.
    """
    plain, drawn = content(docs, seed=seed), {}

    def reply(asked, key):
        if asked == OFFICIAL or asked.ranked:
            return plain(asked, key)
        chance = random.Random(f"{seed} {seed_text(asked)} {key}")
        if asked not in drawn:
            drawn[asked] = content(docs, seed=f"{seed} {seed_text(asked)}")
        lost = sum(
            share for field, share in dict(lower).items() if getattr(asked, field) != "official"
        )
        if chance.random() < lost:
            return chance.choice(LETTERS)
        return (drawn[asked] if chance.random() < change else plain)(asked, key)

    return reply


def ask(model, conditions, docs):
    """Return the model's replies to all conditions."""
    return {
        (asked, key): model(asked, key) for asked in {x.asked for x in conditions} for key in docs
    }
