"""Compare the conditions of a sensitivity run: scores, differences with intervals, tables and a
page.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Template
from rich.console import Console

from lmms_egoplan.benchmarks.egoplan.metrics import rank
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, rotated
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.readers import READERS
from lmms_egoplan.files import write_whole
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.loglikelihood import Loglikelihood
from lmms_egoplan.report.equivalence import ERROR_RATE
from lmms_egoplan.report.ledger import checkpoint_names, read_ledger
from lmms_egoplan.report.page import axis_of, template
from lmms_egoplan.report.statistics import compare, holm, score_interval, why_no_interval
from lmms_egoplan.report.summary import print_table
from lmms_egoplan.report.tables import Row, Table, markdown_of, read_columns, read_notes, show
from lmms_egoplan.sensitivity.conditions import PRESET, Condition, Replies, Reply
from lmms_egoplan.text import join_list

BASE = "base"
"""`Condition.factor` of the condition that all others are compared with."""

_COLUMNS, _note = read_columns(__file__), read_notes(__file__)


@dataclass(frozen=True)
class Effect:
    """The score of a condition, and its difference from the base.

    Attributes:
        choices: Chosen option of each question with a reply, see `chosen`.
        scores: 1 or 0 for each question with a reply. An unparsed reply has 0. A question whose
            options have unknown likelihoods has None.
        cells: Cells of the tables, by the keys of ``columns.yaml``. Scores and shares are in per
            cent, differences in points. Missing values are absent or None. Without a difference,
            the condition is the base, equals it, or shares no questions with it.
    """

    condition: Condition
    choices: Mapping[str, int | None]
    scores: Mapping[str, float | None]
    cells: dict[str, Any]


def chosen(condition: Condition, doc: Doc, reply: Reply) -> int | None:
    """Return the index of the option that a reply chooses, in the stored order; None if it chooses
    none.

    >>> from lmms_egoplan.sensitivity.conditions import Asked
    >>> asked = Asked("official", "official", "official", "official", shift=1)
    >>> doc = {"choices": ["wash", "cut", "open", "pour"], "golden_choice_idx": "A"}
    >>> chosen(Condition("option order", "rotated by 1", asked, "first_letter"), doc, "B. wash")
    0
    """
    choices = rotated(doc, condition.asked.shift)["choices"]
    if isinstance(reply, str):
        letter = READERS[condition.parser](
            reply, *([choices] if condition.parser == "clear" else [])
        )
        index = LETTERS.index(letter) if letter and letter in LETTERS else None
    else:
        index = getattr(
            rank([Loglikelihood(*score) for score in reply], choices), f"by_{condition.parser}"
        )
    return None if index is None else (index - condition.asked.shift) % len(choices)


def effects_of(
    conditions: Iterable[Condition], docs: Mapping[str, Doc], replies: Replies
) -> list[Effect]:
    """Score all conditions and compare them with the base, over the questions with replies in both.

    p-values are corrected by Holm's method. The levels of all factors are one family, and the
    presets are another.

    Args:
        conditions: One of them has the factor `BASE`.
        docs: Questions by sample id, with ``golden_choice_idx`` and ``video_id``, the cluster.

    Returns:
        An effect per condition, in the same order. A difference is the condition's score minus the
        base's.

    Raises:
        ValueError: Not exactly one condition is the base.

    >>> from lmms_egoplan.sensitivity.conditions import Asked
    >>> asked = Asked("official", "official", "official", "official")
    >>> doc = {"choices": ["wash", "cut", "open", "pour"], "golden_choice_idx": "A", "video_id": "v"}
    >>> conditions = [Condition("base", "official", asked, "clear"), Condition("parser", "x", asked, "first_letter")]
    >>> _, effect = effects_of(conditions, {"1": doc}, {(asked, "1"): "Cut or wash? The answer is A."})
    >>> effect.cells["score"], effect.cells["difference"], effect.cells["changed"]
    (0.0, -100.0, 100.0)
    """
    effects = [_scored(condition, docs, replies) for condition in conditions]
    (base,) = (effect for effect in effects if effect.condition.factor == BASE)
    videos = {key: doc["video_id"] for key, doc in docs.items()}
    for effect in effects:
        is_same = (
            replace(effect.condition, factor=BASE, level=base.condition.level) == base.condition
        )
        if pair := None if is_same else compare(effect.scores, base.scores, videos):
            both = [
                key for key in docs if None not in (base.scores.get(key), effect.scores.get(key))
            ]
            changed = fmean(effect.choices[key] != base.choices[key] for key in both)
            cells = _percent(
                difference=pair.difference, low=pair.low, high=pair.high, changed=changed
            )
            effect.cells.update(
                cells, p_value=pair.p_value, compared=pair.questions, videos=pair.clusters
            )
    for is_preset in (True, False):
        family = [
            x.cells
            for x in effects
            if "p_value" in x.cells and is_preset == (x.condition.factor == PRESET)
        ]
        for cells, p_value in zip(
            family, holm([cells["p_value"] for cells in family]), strict=True
        ):
            cells["p_holm"] = p_value
    return effects


def _percent(**shares: float | None) -> dict[str, Any]:
    return {name: None if share is None else 100 * share for name, share in shares.items()}


def _scored(condition: Condition, docs: Mapping[str, Doc], replies: Replies) -> Effect:
    answers = {
        key: replies[condition.asked, key] for key in docs if (condition.asked, key) in replies
    }
    choices = {key: chosen(condition, docs[key], reply) for key, reply in answers.items()}
    unread, is_ranked = sum(choice is None for choice in choices.values()), condition.asked.ranked
    right = {
        key: float(choices[key] == LETTERS.index(docs[key]["golden_choice_idx"])) for key in choices
    }
    scores = {
        key: None if is_ranked and choices[key] is None else score for key, score in right.items()
    }
    low, high = score_interval(
        [*scores.values()], [docs[key]["video_id"] for key in scores], top=1
    ) or (None, None)
    known = [score for score in scores.values() if score is not None]
    score = fmean(known) if known else None
    unparsed = None if is_ranked or not scores else unread / len(scores)
    cells = _percent(score=score, score_low=low, score_high=high, unparsed=unparsed)
    cells |= {
        "factor": condition.factor,
        "level": condition.level,
        "unscored": unread if is_ranked else None,
    }
    missing = [key for key in docs if key not in scores]
    cells |= {
        "questions": len(scores),
        "missing": f"{len(missing):,}: {join_list(missing, 5)}" if missing else None,
    }
    if condition.parser == "mean":
        losses: list[Any] = [
            [score[0] for score in answers[key]] for key in choices if choices[key] is not None
        ]
        cells["ties"] = sum(means.count(min(means)) > 1 for means in losses)
    return Effect(condition, choices, scores, cells)


def factors_of(effects: Iterable[Effect]) -> Iterator[dict[str, Any]]:
    """Summarize each factor: the cells of its strongest level, its spread, and a bound on all of
    its differences.

    The strongest level has the largest difference, among those with a corrected p-value below
    `ERROR_RATE` if there are any. The spread is the largest difference between two levels, the base
    among them. The share of changed answers is the largest one. The bound is the largest end of a
    95 % interval. Since an answer that changes in none of n videos may still change in 3 of n (rule
    of three), it is at least 300 / n points. It is None if a level has no interval.

    >>> list(factors_of([]))
    []
    """
    tested = [x.cells for x in effects if "p_value" in x.cells and x.condition.factor != PRESET]
    for factor in dict.fromkeys(x["factor"] for x in tested):
        levels = [x for x in tested if x["factor"] == factor]
        strongest = max(levels, key=lambda x: (x["p_holm"] < ERROR_RATE, abs(x["difference"])))
        bounds: list[Any] = [
            None if x["low"] is None else max(-x["low"], x["high"], 300 / x["videos"])
            for x in levels
        ]
        differences = [0, *(x["difference"] for x in levels)]
        row = {
            "spread": max(differences) - min(differences),
            "changed": max(x["changed"] for x in levels),
        }
        yield (
            strongest
            | row
            | {"levels": len(differences), "bound": None if None in bounds else max(bounds)}
        )


def finding(factors: Iterable[Mapping[str, Any]], model: str) -> list[str]:
    """State in sentences which factors move the score, by how much, and the bound for the others.

    Args:
        factors: Rows of `factors_of`.

    >>> finding([], "model")
    ['No single factor was compared.']
    """
    sentences = Template(
        Path(__file__).with_name("finding.jinja").read_text(encoding="utf-8"), trim_blocks=True
    )
    texts = {"join": join_list, "show": show, "level": ERROR_RATE}
    return sentences.render(factors=factors, model=model, **texts).strip().splitlines()


def _text(value: str | Mapping[str, Any]) -> str:
    return (
        " ".join(value.split())
        if isinstance(value, str)
        else re.sub('[{}"]', "", json.dumps(value))
    )


def _table(key: str, rows: Iterable[Mapping[str, Any]], *notes: str) -> Table:
    cells = (Row(tuple(row.get(column.key) for column in _COLUMNS[key])) for row in rows)
    return Table(
        key, _note(f"{key}_title"), _COLUMNS[key], tuple(cells), notes=(_note(key), *notes)
    )


def _published(benchmark: str, model: str, presets: Sequence[Mapping[str, Any]]) -> Table:
    rows, wholes = [], [(benchmark, "all"), (benchmark, "val")]
    scores = [
        x for x in read_ledger() if x.group[:2] in wholes and x.name in checkpoint_names(model)
    ]
    for score in scores:
        # Without an interval, both ends are None.
        around = [
            x["level"]
            for x in presets
            if (x["score_low"] or 0) <= score.value <= (x["score_high"] or -1)
        ]
        rows.append(
            {**score.cells, "marks": ", ".join(score.marks), "presets": join_list(around) or "none"}
        )
    return _table("published", rows, *([] if scores else [_note("none_published", model=model)]))


def write(out: Path, benchmark: str, model: str, conditions: Sequence[Condition], docs: Mapping[str, Doc],
          replies: Replies, *, total: int, truncated: Mapping[Any, bool | None] | None = None) -> None:  # fmt: skip
    """Print the main tables, and write ``sensitivity.html``, ``sensitivity.md`` and
    ``sensitivity.json``.

    Args:
        out: Folder. Earlier files of these names are replaced.
        benchmark: Name of the benchmark.
        model: Name of the checkpoint, to look up published scores.
        conditions, docs, replies: See `effects_of`. A preset's level is its name.
        truncated: Whether the limit on new tokens ended a reply, by the keys of the replies; None
            if unknown.
        total: Number of questions in the prepared split.

    Raises:
        OSError: The folder is not writable.
    """
    effects, stated = effects_of(conditions, docs, replies), load_presets(benchmark)
    for condition, cells in ((x.condition, x.cells) for x in effects):
        ends = [
            x
            for x in ((truncated or {}).get((condition.asked, key)) for key in docs)
            if x is not None
        ]
        cells["truncated"] = 100 * fmean(ends) if ends else None
        if preset := stated[condition.level] if condition.factor in (PRESET, BASE) else None:
            unknown = [f"{field}: {_text(getattr(preset, field)):.80}" for field in preset.unknown]
            gaps = [f"{field}: {gap}" for field, gap in preset.gaps.items()]
            cells["unknown"] = "; ".join(unknown + gaps) or "none"
    rows, factors = [effect.cells for effect in effects], [*factors_of(effects)]
    presets, levels = (
        [x for x in rows if (x["factor"] == PRESET) is is_preset] for is_preset in (True, False)
    )
    scoring = [x for x in levels if x["factor"] in (BASE, "scoring")]
    parts = {
        "presets": presets,
        "factors": factors,
        "effects": levels,
        "scoring": scoring * (len(scoring) > 1),
    }
    tables = [
        *(_table(key, part) for key, part in parts.items() if part),
        _published(benchmark, model, presets),
    ]
    lost = sum(row["missing"] is not None for row in rows)
    about = {
        "benchmark": benchmark,
        "model": model,
        "questions": len(docs),
        "total": total,
        "incomplete": lost,
    }
    about |= {
        "videos": len({doc["video_id"] for doc in docs.values()}),
        "base": scoring[0]["level"],
    }
    about |= {
        "base_unparsed": show(scoring[0]["unparsed"], 1),
        "base_unknown": scoring[0]["unknown"],
    }
    lines = [*finding(factors, model), _note("about", **about)]
    print("\n".join(lines))
    for table in tables[:3]:
        print_table(table, Console(width=max(Console().width, 150)))
    page = template().environment.from_string(
        Path(__file__).with_name("page.html.jinja").read_text(encoding="utf-8")
    )
    values = {"title": _note("title", **about), "lines": lines, "tables": tables, "rows": rows}
    write_whole(
        out / "sensitivity.html", page.render(**values, axis_of=axis_of, why=why_no_interval)
    )
    write_whole(
        out / "sensitivity.md",
        "\n\n".join([f"# {values['title']}", *lines, *map(markdown_of, tables)]),
    )
    content = {
        **about,
        "finding": lines[:-1],
        "factors": factors,
        "conditions": [asdict(x) for x in effects],
    }
    write_whole(out / "sensitivity.json", json.dumps(content, indent=1) + "\n")
