"""Compare the conditions of a sensitivity run: scores, differences with intervals, and a page."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Template
from rich.console import Console

from lmms_egoplan.benchmarks.egoplan.presets import Preset, load_presets, rotated
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.benchmarks.egoplan.rank import rank
from lmms_egoplan.files import write_whole
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.outputs import results_of
from lmms_egoplan.ranking.loglikelihood import Loglikelihood
from lmms_egoplan.report.axes import axis_of
from lmms_egoplan.report.page import template
from lmms_egoplan.report.tables import Table, markdown_of, show
from lmms_egoplan.report.terminal import print_table
from lmms_egoplan.sensitivity.conditions import PRESET, Condition, Replies, Reply
from lmms_egoplan.sensitivity.tables import (
    RULE_OF_THREE,
    Cells,
    effects_table,
    factors_table,
    presets_table,
    published_table,
    scoring_table,
)
from lmms_egoplan.stats.equivalence import ERROR_RATE
from lmms_egoplan.stats.intervals import compare, holm, score_interval, why_no_interval
from lmms_egoplan.text import join_list

PAGE = "sensitivity.html"
MARKDOWN = "sensitivity.md"
JSON = "sensitivity.json"
BASE = "base"
"""`Condition.factor` of the condition that all others are compared with."""

# Maximum characters of an unknown field's value in a table.
_LONGEST_VALUE = 80
# Maximum number of missing questions that a table names.
_NAMED = 5
# Minimum width of the printed tables, in characters.
_NARROWEST = 150


@dataclass(frozen=True)
class Effect:
    """The score of a condition, and its difference from the base.

    Attributes:
        choices: Chosen option of each question with a reply, see `chosen`.
        scores: 1 or 0 for each question with a reply. An unparsed reply has 0. A question whose
            options have unknown likelihoods has None.
        cells: Cells of the tables, by the keys of their columns. Scores and shares are in per
            cent, differences in points. Missing values are absent or None. Without a difference,
            the condition is the base, equals it, or shares no questions with it.
    """

    condition: Condition
    choices: Mapping[str, int | None]
    scores: Mapping[str, float | None]
    cells: dict[str, Any]


def chosen(condition: Condition, doc: Doc, reply: Reply) -> int | None:
    """Return the index of the option that a reply chooses; None if it chooses none.

    The index is that of the stored order. If the options were moved down by s of n positions, the
    chosen position i is option (i - s) mod n.

    >>> from lmms_egoplan.sensitivity.conditions import PromptVariant
    >>> asked = PromptVariant("official", "official", "official", "official", shift=1)
    >>> doc = {"choices": ["wash", "cut", "open", "pour"], "golden_choice_idx": "A"}
    >>> chosen(Condition("option order", "rotated by 1", asked, "first_letter"), doc, "B. wash")
    0
    """
    shift = condition.asked.shift
    choices = rotated(doc, shift)["choices"]
    if isinstance(reply, str):
        index = _read_index(condition.parser, reply, choices)
    else:
        index = _best_ranked(condition.parser, reply, choices)
    if index is None:
        return None
    return (index - shift) % len(choices)


def _read_index(parser: str, reply: str, choices: Sequence[str]) -> int | None:
    """Return the position of the letter that a parser reads in a written reply."""
    reader: Callable[..., str | None] = READERS[parser]
    letter = reader(reply, choices) if parser == "clear" else reader(reply)
    if not letter or letter not in LETTERS:
        return None
    return LETTERS.index(letter)


def _best_ranked(
    rule: str, losses: Sequence[tuple[float | None, int | None]], choices: Sequence[str]
) -> int | None:
    """Return the position of the likeliest option by a rule: ``mean``, ``sum`` or ``bytes``."""
    ranking = rank([Loglikelihood(loss, num_tokens) for loss, num_tokens in losses], choices)
    if rule == "mean":
        return ranking.by_mean
    if rule == "sum":
        return ranking.by_sum
    return ranking.by_bytes


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

    >>> from lmms_egoplan.sensitivity.conditions import PromptVariant
    >>> asked = PromptVariant("official", "official", "official", "official")
    >>> choices = ["wash", "cut", "open", "pour"]
    >>> docs = {"1": {"choices": choices, "golden_choice_idx": "A", "video_id": "v"}}
    >>> base = Condition("base", "official", asked, "clear")
    >>> other = Condition("parser", "x", asked, "first_letter")
    >>> replies = {(asked, "1"): "Cut or wash? The answer is A."}
    >>> _, effect = effects_of([base, other], docs, replies)
    >>> effect.cells["score"], effect.cells["difference"], effect.cells["changed"]
    (0.0, -100.0, 100.0)
    """
    effects = [_scored(condition, docs, replies) for condition in conditions]
    (base,) = (effect for effect in effects if effect.condition.factor == BASE)
    for effect in effects:
        if not _is_same(effect.condition, base.condition):
            _compare_with_base(effect, base, docs)
    compared = [effect for effect in effects if "p_value" in effect.cells]
    _correct_p_values([effect for effect in compared if effect.condition.factor == PRESET])
    _correct_p_values([effect for effect in compared if effect.condition.factor != PRESET])
    return effects


def _is_same(condition: Condition, base: Condition) -> bool:
    """Return whether a condition asks and reads like the base."""
    return condition.asked == base.asked and condition.parser == base.parser


def _compare_with_base(effect: Effect, base: Effect, docs: Mapping[str, Doc]) -> None:
    """Add the difference from the base to the cells, over the questions with scores in both.

    - The difference is 100 times the mean of s - b, for the scores s of the condition and b of the
      base. Its interval has videos as clusters, see `statistics.compare`.
    - Changed: 100 times the fraction of these questions with another chosen option.
    """
    videos = {key: doc["video_id"] for key, doc in docs.items()}
    comparison = compare(effect.scores, base.scores, videos)
    if comparison is None:
        return
    is_changed = []
    for key in docs:
        if base.scores.get(key) is not None and effect.scores.get(key) is not None:
            is_changed.append(effect.choices[key] != base.choices[key])
    effect.cells.update(
        difference=_percent(comparison.difference),
        low=_percent(comparison.low),
        high=_percent(comparison.high),
        changed=_percent(fmean(is_changed)),
        p_value=comparison.p_value,
        compared=comparison.questions,
        videos=comparison.clusters,
    )


def _correct_p_values(family: Sequence[Effect]) -> None:
    """Add the p-values of a family to its cells, corrected by Holm's method."""
    corrected = holm([effect.cells["p_value"] for effect in family])
    for effect, p_value in zip(family, corrected, strict=True):
        effect.cells["p_holm"] = p_value


def _percent(share: float | None) -> float | None:
    """Return a share in per cent."""
    return None if share is None else 100 * share


def _scored(condition: Condition, docs: Mapping[str, Doc], replies: Replies) -> Effect:
    """Score a condition, without a difference.

    - A question's score is 1 if the chosen option is the right one, else 0. It is None if the
      options' likelihoods are unknown.
    - The condition's score is the mean of the known ones, with videos as clusters of its interval.
    - Unparsed: share of written replies that choose no option.
    """
    answers: dict[str, Reply] = {}
    for key in docs:
        if (condition.asked, key) in replies:
            answers[key] = replies[condition.asked, key]
    choices = {key: chosen(condition, docs[key], reply) for key, reply in answers.items()}
    is_ranked = condition.asked.ranked
    scores: dict[str, float | None] = {}
    for key, choice in choices.items():
        if is_ranked and choice is None:
            scores[key] = None
        else:
            scores[key] = float(choice == LETTERS.index(docs[key]["golden_choice_idx"]))
    known = [score for score in scores.values() if score is not None]
    clusters = [docs[key]["video_id"] for key in scores]
    low, high = score_interval([*scores.values()], clusters, top=1) or (None, None)
    num_unread = sum(choice is None for choice in choices.values())
    missing = [key for key in docs if key not in scores]
    cells: dict[str, Any] = {
        "score": _percent(fmean(known)) if known else None,
        "score_low": _percent(low),
        "score_high": _percent(high),
        "unparsed": None if is_ranked or not scores else _percent(num_unread / len(scores)),
        "factor": condition.factor,
        "level": condition.level,
        "unscored": num_unread if is_ranked else None,
        "questions": len(scores),
        "missing": f"{len(missing):,}: {join_list(missing, _NAMED)}" if missing else None,
    }
    if condition.parser == "mean":
        ranked = [answers[key] for key, choice in choices.items() if choice is not None]
        cells["ties"] = sum(_is_tied(reply) for reply in ranked)
    return Effect(condition, choices, scores, cells)


def _is_tied(reply: Any) -> bool:
    """Return whether several options share the best mean loss."""
    losses = [loss for loss, _ in reply]
    return losses.count(min(losses)) > 1


def factors_of(effects: Iterable[Effect]) -> Iterator[dict[str, Any]]:
    """Summarize each factor: its strongest level, its spread, and a bound on all differences.

    A summary has the cells of the strongest level and those named here.

    The strongest level has the largest difference, among those with a corrected p-value below
    `ERROR_RATE` if there are any. The spread is the largest difference between two levels, the base
    among them. The share of changed answers is the largest one. The bound is the largest end of a
    95 % interval. Since an answer that changes in none of n videos may still change in 3 of n (rule
    of three), it is at least 300 / n points. It is None if a level has no interval.

    >>> list(factors_of([]))
    []
    """
    tested = [
        effect.cells
        for effect in effects
        if "p_value" in effect.cells and effect.condition.factor != PRESET
    ]
    for factor in dict.fromkeys(cells["factor"] for cells in tested):
        yield _summary([cells for cells in tested if cells["factor"] == factor])


def _summary(levels: Sequence[Cells]) -> dict[str, Any]:
    """Summarize the levels of one factor, see `factors_of`."""
    strongest = max(levels, key=_strength)
    differences = [0, *(cells["difference"] for cells in levels)]
    return {
        **strongest,
        "spread": max(differences) - min(differences),
        "changed": max(cells["changed"] for cells in levels),
        "levels": len(differences),
        "bound": _bound(levels),
    }


def _strength(cells: Cells) -> tuple[bool, float]:
    """Return the order of a level: whether it moves the score, then its absolute difference."""
    return cells["p_holm"] < ERROR_RATE, abs(cells["difference"])


def _bound(levels: Sequence[Cells]) -> float | None:
    """Return the bound on the differences of a factor, in points; None without an interval.

    It is the largest of -low and high of the intervals of all levels, and of 300 / n for n videos.
    """
    bounds = []
    for cells in levels:
        if cells["low"] is None:
            return None
        bounds.append(max(-cells["low"], cells["high"], RULE_OF_THREE / cells["videos"]))
    return max(bounds)


def finding(factors: Iterable[Mapping[str, Any]], model: str) -> list[str]:
    """State in sentences which factors move the score, by how much, and the bound for the others.

    Args:
        factors: Rows of `factors_of`.

    >>> finding([], "model")
    ['No single factor was compared.']
    """
    source = Path(__file__).with_name("finding.jinja").read_text(encoding="utf-8")
    text = Template(source, trim_blocks=True).render(
        factors=factors, model=model, join=join_list, show=show, level=ERROR_RATE
    )
    return text.strip().splitlines()


def write(
    out: Path,
    benchmark: str,
    model: str,
    conditions: Sequence[Condition],
    docs: Mapping[str, Doc],
    replies: Replies,
    *,
    total: int,
    truncated: Mapping[Any, bool | None] | None = None,
) -> None:
    """Print the main tables, and write the page, the Markdown file and the JSON file.

    These are ``sensitivity.html``, ``sensitivity.md`` and ``sensitivity.json``.

    Args:
        out: Folder. Earlier results are replaced, see `results_of`.
        benchmark: Name of the benchmark.
        model: Name of the checkpoint, to look up published scores.
        conditions, docs, replies: See `effects_of`. A preset's level is its name.
        truncated: Whether the limit on new tokens ended a reply, by the keys of the replies; None
            if unknown.
        total: Number of questions in the prepared split.

    Raises:
        OSError: The folder is not writable.
    """
    effects = effects_of(conditions, docs, replies)
    presets = load_presets(benchmark)
    for effect in effects:
        effect.cells["truncated"] = _truncated_share(effect.condition, docs, truncated or {})
        if effect.condition.factor in (PRESET, BASE):
            effect.cells["unknown"] = _unknown_fields(presets[effect.condition.level])
    rows = [effect.cells for effect in effects]
    factors = [*factors_of(effects)]
    base = next(cells for cells in rows if cells["factor"] == BASE)
    about = {
        "benchmark": benchmark,
        "model": model,
        "questions": len(docs),
        "total": total,
        "incomplete": sum(cells["missing"] is not None for cells in rows),
        "videos": len({doc["video_id"] for doc in docs.values()}),
        "base": base["level"],
        "base_unparsed": show(base["unparsed"], 1),
        "base_unknown": base["unknown"],
    }
    findings = finding(factors, model)
    lines = [*findings, _about_line(about)]
    tables = _tables(benchmark, model, rows, factors)
    print("\n".join(lines))
    for table in tables[:3]:
        print_table(table, Console(width=max(Console().width, _NARROWEST)))
    title = f"Protocol sensitivity: {model} on {benchmark}"
    page = template().environment.from_string(
        Path(__file__).with_name("page.html.jinja").read_text(encoding="utf-8")
    )
    html = page.render(
        title=title,
        lines=lines,
        tables=tables,
        rows=rows,
        axis_of=axis_of,
        why=why_no_interval,
    )
    markdown = [f"# {title}", *lines, *(markdown_of(table) for table in tables)]
    content = {
        **about,
        "finding": findings,
        "factors": factors,
        "conditions": [asdict(effect) for effect in effects],
    }
    with results_of(out) as results:
        write_whole(results / PAGE, html)
        write_whole(results / MARKDOWN, "\n\n".join(markdown))
        write_whole(results / JSON, json.dumps(content, indent=1) + "\n")


def _truncated_share(
    condition: Condition, docs: Mapping[str, Doc], truncated: Mapping[Any, bool | None]
) -> float | None:
    """Return the share of replies that the token limit ended, in per cent; None if unknown."""
    known = []
    for key in docs:
        is_truncated = truncated.get((condition.asked, key))
        if is_truncated is not None:
            known.append(is_truncated)
    return 100 * fmean(known) if known else None


def _unknown_fields(preset: Preset) -> str:
    """Describe the fields that a preset does not state, with the values used, and its gaps."""
    unknown = [
        f"{field}: {_value_text(getattr(preset, field)):.{_LONGEST_VALUE}}"
        for field in preset.unknown
    ]
    gaps = [f"{field}: {gap}" for field, gap in preset.gaps.items()]
    return "; ".join(unknown + gaps) or "none"


def _value_text(value: str | Mapping[str, Any]) -> str:
    """Return a field's value in one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    return re.sub('[{}"]', "", json.dumps(value))


def _about_line(about: Mapping[str, Any]) -> str:
    """Return the sentences about the whole run."""
    return (
        f"{about['questions']:,} of {about['total']:,} questions, from {about['videos']:,} videos. "
        f"Every difference is a condition minus the base ({about['base']}), over the questions "
        f"with replies in both. Unparsed replies at the base: {about['base_unparsed']} %. Fields "
        f"that the base does not state, with the values used, and gaps: {about['base_unknown']}. "
        f"Conditions without a reply to some questions: {about['incomplete']}."
    )


def _tables(
    benchmark: str, model: str, rows: Sequence[Cells], factors: Sequence[Cells]
) -> list[Table]:
    """Return the tables that have rows, and the published scores."""
    presets = [cells for cells in rows if cells["factor"] == PRESET]
    levels = [cells for cells in rows if cells["factor"] != PRESET]
    scoring = [cells for cells in levels if cells["factor"] in (BASE, "scoring")]
    tables = []
    if presets:
        tables.append(presets_table(presets))
    if factors:
        tables.append(factors_table(factors))
    if levels:
        tables.append(effects_table(levels))
    if len(scoring) > 1:
        tables.append(scoring_table(scoring))
    tables.append(published_table(benchmark, model, presets))
    return tables
