"""The benchmarks: the one list that the command, its demo and report, and lmms-eval's plugin iterate over.

Light to import: what a benchmark brings stands in modules of fixed names in its package, and is loaded when asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lmms_egoplan.annotation.flow import Flow
    from lmms_egoplan.demo.rendered_set import RenderedSet
    from lmms_egoplan.report.benchmark import BenchmarkReport
    from lmms_egoplan.storage import PreparedData


class Commands(Protocol):
    """A benchmark's subcommands: its module ``commands``.

    COMMANDS: by what is typed after ``lmms-egoplan``: groups and name.
    FORMER_OPTIONS: of some of these commands, the options of earlier versions that gave their first arguments.
    HELPS: what helps of shared commands tell of the benchmark. By the name of a group, an example;
        ``judge, defaults``: the judges that its tasks ask by default;
        ``tasks-path --tasks``: a task for lm-eval's text-only models;
        ``report RUNS``: which other files a report takes; ``report --similarity``: what that option is for.
    """

    COMMANDS: Mapping[str, Callable[..., None]]
    FORMER_OPTIONS: Mapping[str, tuple[str, ...]]
    HELPS: Mapping[str, str]


@dataclass(frozen=True)
class TaskJudge:
    """The judge of some of lmms-eval's tasks, as `announce_judge` takes it.

    tasks: name of their YAML file, or of their folder.
    default_model: where its name stands.
    otherwise: where the text stands; None without one.
    """

    tasks: str
    default_model: str
    otherwise: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    name: of its package, its tasks' folders and its prepared data; its tasks and files in ``tasks/shared`` begin so.
    title: as reports and helps say it.
    paper: its title, or where it is; "" for none.
    tasks: names for ``--tasks`` that both harnesses know, the main one first.
    tables, figures: numbers of the paper's that a report shows; "" for none.
    report: its `BenchmarkReport`, in its module ``report``.
    judges: of its tasks.

    What else it brings stands in its modules ``splits``, ``commands``, ``demo`` and ``annotation``.
    """

    name: str
    title: str
    paper: str
    tasks: tuple[str, ...]
    tables: str
    figures: str
    report: str
    judges: tuple[TaskJudge, ...] = ()

    def load_splits(self) -> "PreparedData":
        """Its prepared splits, with their official sizes."""
        return self._load("splits:PREPARED")

    def load_commands(self) -> Commands:
        """Its subcommands."""
        return self._load("commands")

    def load_report(self) -> "type[BenchmarkReport]":
        """Its part of reports."""
        return self._load(f"report:{self.report}")

    def load_demo(self) -> "RenderedSet":
        """Its part of the demo."""
        return self._load("demo")

    def load_annotation(self) -> "Flow":
        """What people label of it."""
        return self._load("annotation:FLOW")

    def _load(self, part: str) -> Any:
        return resolve_name(f"{__package__}.{self.name}.{part}")


BENCHMARKS = (
    Benchmark(
        name="egoplan",
        title="EgoPlan",
        paper="https://arxiv.org/abs/2312.06722",
        tasks=("egoplan_val", "egoplan_val_generate"),
        tables="1, 3 and 4",
        figures="7 and 8",
        report="EgoPlanReport",
    ),
    Benchmark(
        name="egothink",
        title="EgoThink",
        paper="https://arxiv.org/abs/2311.15596",
        tasks=("egothink_bench",),
        tables="3 and 9 to 11",
        figures="",
        report="EgoThinkReport",
        judges=(
            TaskJudge(
                "egothink",
                "lmms_egoplan.benchmarks.egothink.scoring:DEFAULT_JUDGE",
                "lmms_egoplan.benchmarks.egothink.scoring:OTHERWISE",
            ),
        ),
    ),
    Benchmark(
        name="egointent",
        title="EgoIntent",
        paper="EgoIntent: An Egocentric Step-level Benchmark for Understanding What, Why, and Next",
        tasks=("egointent",),
        tables="3",
        figures="7",
        report="EgoIntentReport",
        judges=(
            TaskJudge("egointent.yaml", "lmms_egoplan.benchmarks.egointent.scoring:DEFAULT_JUDGE"),
            TaskJudge(
                "egointent_diagnostics.yaml", "lmms_egoplan.benchmarks.egointent.diagnostics.scoring:DEFAULT_JUDGE"
            ),
        ),
    ),
    Benchmark(
        name="actplan",
        title="ActPlan-1K",
        paper="https://arxiv.org/abs/2410.03907",
        tasks=("actplan_bench", "actplan", "actplan_text_only"),
        tables="3 to 7",
        figures="5",
        report="ActPlanReport",
    ),
)
