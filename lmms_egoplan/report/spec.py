"""The facts about a benchmark's part of a report, and the inputs of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Inputs:
    """The inputs of a report except the runs.

    Attributes:
        similarity: encoder for the similarity of texts, a name or a folder; None for the
            benchmark's default.
        judged: files of answers that a judge has rated several times.
        labelled: folders with people's labels, each with its benchmark (`labelled_folders`).
        models: names of all runs of the report, in order, so that each has the same colour in all
            figures (`charts.looks_of`).
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()
    labelled: Mapping[Path, str] = field(default_factory=dict, hash=False)
    models: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The facts about a benchmark's part of a report.

    Attributes:
        name: name of the benchmark, and key of the section.
        title: title of the section.
        lead: introduction of the section.
        metric: name of the main score in the summary.
        decimals: decimals of the main score.
        measure: key of the main score in an answer's `scores`.
        compact_title: title of the table for a terminal.
        compact_main: label of the main score in that table.
        clusters: plural noun for `Answer.cluster`.
        unit: unit of a difference of main scores; "" for none.
        top: the highest possible main score.
        panel: how judges' ratings of an answer are combined, except by their mean: ``majority``, or
            ``median`` if the ratings have many levels.
        scale: factor from `measure` to the main score.
        group_order: order of an attribute's groups, if it is neither alphabetical nor numeric.
        reference: table and column of the published score to compare with; "" for the table's main
            column.
        caveat: see `Reference`.
        result_task: the task that follows the paper, for the table of results. A run without it is
            there with its first task; "" if there is only one.
        subsets: metric of each of the ledger's subsets; "" for the main score.
        baselines: a sentence on each baseline that needs no model, by its name.
        ledger_fields: how each task obtains its scores, by task and by the ledger's names of
            fields. Only these tasks are compared with the ledger.
    """

    name: str
    title: str
    lead: str
    metric: str
    decimals: int
    measure: str
    compact_title: str
    compact_main: str
    clusters: str = "questions"
    unit: str = "points"
    top: float = 100
    panel: str = "majority"
    scale: float = 1
    group_order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference: tuple[str, str] | None = None
    caveat: str = ""
    result_task: str = ""
    subsets: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, str] = field(default_factory=dict)
    ledger_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


NO_INPUTS = Inputs()
