"""The benchmarks, for the command, its demo and report, and lmms-eval's plugin; they are listed in ``registry.yaml``.

Light to import: a benchmark's report is loaded on demand.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.demo import DemoSet
from lmms_egoplan.paths import rows_beside, yaml_beside
from lmms_egoplan.storage import PreparedData

if TYPE_CHECKING:
    from lmms_egoplan.report.benchmark import BenchmarkReport


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    name: of its tasks' folders and its prepared data; prefix of its tasks and files in ``tasks/shared``.
    title: for reports and help.
    paper: its title or address; "" for none.
    tasks: names for ``--tasks`` in both harnesses, the main one first.
    report: its `BenchmarkReport`: module and name below this package.
    demo: its part of the demo.
    judges: of lmms-eval's tasks, by the name of their YAML file or folder: the module with the model's name,
        ``DEFAULT_JUDGE``, and optionally ``OTHERWISE``; see `announce_judge`.
    suite: its tasks in the suite of all benchmarks, in both harnesses.
    suite_thinking: the same for models that think before they answer; default: `suite`.
    suite_splits: the splits that these need; default: all.
    scorers: its function that loads what scores answers, to fail before a model loads; "" for none.
    """

    name: str
    title: str
    paper: str
    tasks: tuple[str, ...]
    report: str
    demo: DemoSet
    judges: Mapping[str, str] = field(default_factory=dict, hash=False)
    suite: tuple[str, ...] = ()
    suite_thinking: tuple[str, ...] = ()
    suite_splits: tuple[str, ...] = ()
    scorers: str = ""

    def load_splits(self) -> PreparedData:
        """Load its prepared splits, with their official sizes."""
        return next(splits for splits in SPLITS if splits.benchmark == self.name)

    def load_report(self) -> "type[BenchmarkReport]":
        """Load its part of reports."""
        return _load(self.report)

    def load_judges(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Load default judge and alternative to a judge of the tasks with these files or folders."""
        modules = [_load(module) for tasks, module in self.judges.items() if tasks in names]
        return [(module.DEFAULT_JUDGE, getattr(module, "OTHERWISE", "")) for module in modules]


def published_together() -> list[dict[str, str]]:
    """Read ``model_cards.csv``: published scores of models in several benchmarks, for model cards."""
    return rows_beside(str(Path(__file__).with_name("model_cards")))


def load_scorers(names: Collection[str]) -> None:
    """Load what scores the answers of these benchmarks.

    Raises:
        LmmsEgoplanError: a part of it cannot be loaded.
    """
    for benchmark in BENCHMARKS:
        if benchmark.scorers and benchmark.name in names:
            _load(benchmark.scorers)()


def _load(target: str) -> Any:
    return resolve_name(f"{__package__}.{target}")


BENCHMARKS = TypeAdapter(tuple[Benchmark, ...]).validate_python(yaml_beside(__file__))
DEMO_SETS = {benchmark.name: benchmark.demo for benchmark in BENCHMARKS}
