"""Load the registry of all benchmarks from ``registry.yaml``, for the CLI, demo, report and
lmms-eval's plugin.

Importing this module is cheap, because reports are loaded on demand.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.coverage import covered
from lmms_egoplan.demo import DemoSet
from lmms_egoplan.paths import module_rows, module_yaml
from lmms_egoplan.storage import DataMissingError, PreparedData

if TYPE_CHECKING:
    from datasets import Dataset

    from lmms_egoplan.report.benchmark import BenchmarkReport


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: Name of its task folders and prepared data; prefix of its tasks and its files in
            ``tasks/shared``.
        title: Title for reports and help.
        paper: Title or address of the paper; "" for none.
        tasks: Names for ``--tasks`` in both harnesses, the main one first.
        report: Module and class of its `BenchmarkReport`, relative to this package.
        demo: Its part of the demo.
        judges: Module for each YAML file or folder of tasks. The module has ``DEFAULT_JUDGE``, the
            name of the default judge; optionally ``OTHERWISE``, a hint for runs without a judge,
            and ``probe_form``, the form of the test request (see `announce_judge`); and a function
            ``estimate``, which judges answers like the references of some rows.
        suite: Its tasks in the suite of all benchmarks, in both harnesses.
        suite_thinking: Tasks of the suite for models that think before they answer. Default:
            `suite`.
        suite_splits: Splits that the suite needs. Default: all.
        official: Function from a prepared row of a task to the official number of its questions; ""
            if all tasks have all questions of their split.
        pixels: Function that returns the limits on pixels of a preset, for both harnesses; "" if no
            preset has any.
        presets: Presets that ``LMMS_EGOPLAN_PROTOCOL`` selects for its tasks. Others are tasks:
            ``NAME__PRESET``.
        scorers: Function that loads the scoring models early, to fail before a model loads; "" for
            none.
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
    presets: tuple[str, ...] = ()
    pixels: str = ""
    official: str = ""

    def covers(self, split: str, rows: "Dataset") -> int:
        """Return the number of questions that the coverage of a task's results is a share of; 0
        without rows.

        Args:
            split: The task's split.
            rows: The rows that it asks, without those that ``--limit`` excludes.
        """
        columns = [
            name
            for name, feature in rows.features.items()
            if getattr(feature, "dtype", "") in _PLAIN
        ]
        sizes = self.load_splits().official
        of_split = sizes.get(split, sizes.get(split.partition("_")[0], len(rows)))
        official_of = _load(self.official) if self.official else lambda _: of_split
        asked = rows.select_columns(columns)
        return min(
            (covered(row, official_of(row), 1)["coverage"]["of"] for row in asked), default=0
        )

    def load_splits(self) -> PreparedData:
        """Load the prepared splits and their official sizes."""
        return next(splits for splits in SPLITS if splits.benchmark == self.name)

    def absence(self) -> str | None:
        """Return why the suite cannot run this benchmark; None if all required splits are prepared.

        Raises:
            LmmsEgoplanError: a split is damaged or has another format.
        """
        splits = self.load_splits()
        try:
            for split in self.suite_splits or splits.official:
                splits.folder(split)
        except DataMissingError as error:
            return str(error)
        return None

    def load_report(self) -> "type[BenchmarkReport]":
        """Load the report class."""
        return _load(self.report)

    def load_judges(self, names: Collection[str]) -> list[tuple[str, str, Any]]:
        """Load the arguments of `announce_judge` for the judges of tasks by YAML file or folder."""
        return [
            (
                module.DEFAULT_JUDGE,
                getattr(module, "OTHERWISE", ""),
                getattr(module, "probe_form", None),
            )
            for module in self.judge_modules(names)
        ]

    def judge_modules(self, names: Collection[str]) -> list[Any]:
        """Load the modules of the judges of tasks by YAML file or folder."""
        return [_load(module) for tasks, module in self.judges.items() if tasks in names]


# Types of columns that are read to learn whose questions the rows are.
_PLAIN = ("string", "int64", "bool")


def published_together() -> list[dict[str, str]]:
    """Read ``model_cards.csv``: scores of models in several benchmarks, as published in model
    cards.
    """
    return module_rows(str(Path(__file__).with_name("model_cards")))


def load_scorers(names: Collection[str]) -> None:
    """Load the scoring models of these benchmarks.

    Raises:
        LmmsEgoplanError: a scoring model cannot be loaded.
    """
    for benchmark in BENCHMARKS:
        if benchmark.scorers and benchmark.name in names:
            _load(benchmark.scorers)()


def stated_pixels(preset: str) -> Mapping[str, int]:
    """Return the limits on pixels that a published pipeline states; empty if it states none."""
    functions = [_load(benchmark.pixels) for benchmark in BENCHMARKS if benchmark.pixels]
    return next(filter(None, (function(preset) for function in functions)), {})


def _load(target: str) -> Any:
    return resolve_name(f"{__package__}.{target}")


BENCHMARKS = TypeAdapter(tuple[Benchmark, ...]).validate_python(module_yaml(__file__))
DEMO_SETS = {benchmark.name: benchmark.demo for benchmark in BENCHMARKS}
