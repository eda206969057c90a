"""The benchmarks: the one list that the command, its demo and report, and lmms-eval's plugin iterate over.

It stands in ``registry.yaml``.
Light to import: what a benchmark brings stands in modules of fixed names in its package, and is loaded when asked for.
"""

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lmms_egoplan.paths import yaml_beside

if TYPE_CHECKING:
    from lmms_egoplan.demo.rendered_set import RenderedSet
    from lmms_egoplan.report.benchmark import BenchmarkReport
    from lmms_egoplan.storage import PreparedData


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    name: of its package, its tasks' folders and its prepared data; its tasks and files in ``tasks/shared`` begin so.
    title: as reports and helps say it.
    paper: its title, or where it is; "" for none.
    tasks: names for ``--tasks`` that both harnesses know, the main one first.
    tables, figures: numbers of the paper's that a report shows; "" for none.
    report: its `BenchmarkReport`, in its module ``report``.
    judges: of lmms-eval's tasks, by the name of their YAML file, or of their folder: the module that has the model's
        name, ``DEFAULT_JUDGE``, and may have ``OTHERWISE``, both as `announce_judge` takes them.
    suite: its tasks in the suite of all benchmarks, which both harnesses know.
    suite_thinking: the same for models that think before they answer; those of `suite` where empty.
    suite_splits: the splits that these need; all where empty.
    scorers: its function that loads what scores answers, to fail before a model loads; "" for none.
    package: of its modules ``splits``, ``report`` and ``demo``, below this one; `name` by default.
    """

    name: str
    title: str
    paper: str
    tasks: tuple[str, ...]
    tables: str
    figures: str
    report: str
    judges: Mapping[str, str] = field(default_factory=dict, hash=False)
    suite: tuple[str, ...] = ()
    suite_thinking: tuple[str, ...] = ()
    suite_splits: tuple[str, ...] = ()
    scorers: str = ""
    package: str = ""

    def load_splits(self) -> "PreparedData":
        """Its prepared splits, with their official sizes."""
        return self._load("splits:PREPARED")

    def load_report(self) -> "type[BenchmarkReport]":
        """Its part of reports."""
        return self._load(f"report:{self.report}")

    def load_demo(self) -> "RenderedSet":
        """Its part of the demo."""
        return self._load("demo")

    def load_judges(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Default model, and what else can be done without a judge, of the tasks whose file or folder is named so."""
        modules = [self._load(module) for tasks, module in self.judges.items() if tasks in names]
        return [(module.DEFAULT_JUDGE, getattr(module, "OTHERWISE", "")) for module in modules]

    def _load(self, part: str) -> Any:
        return resolve_name(f"{__package__}.{self.package or self.name}.{part}")


def published_together() -> list[dict[str, str]]:
    """Published rows of models with scores in several benchmarks, for model cards: ``model_cards.csv``."""
    with Path(__file__).with_name("model_cards.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def load_scorers(names: Collection[str]) -> None:
    """Load what scores the answers of benchmarks with these names.

    Raises:
        LmmsEgoplanError: something of it cannot be loaded.
    """
    for benchmark in BENCHMARKS:
        if benchmark.scorers and benchmark.name in names:
            benchmark._load(benchmark.scorers)()


BENCHMARKS = TypeAdapter(tuple[Benchmark, ...]).validate_python(yaml_beside(__file__))
