"""The benchmarks, by name, for the CLI, the demo, the report and lmms-eval's plugin.

Importing this module is cheap: judges and scoring models load when they are needed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.coverage import coverage_values
from lmms_egoplan.storage import DataMissingError, PreparedData, without_images

if TYPE_CHECKING:
    from datasets import Dataset

    from lmms_egoplan.judging.probe import ProbeForm


@dataclass(frozen=True)
class DemoSet:
    """A benchmark's small rendered set in the official layout. Its files are part of the package.

    Attributes:
        folder: folder of the files. It must not have the name of a task, or lmms-eval would look
            for the task there.
        prepare: arguments of ``lmms-egoplan data prepare``, with paths relative to the folder of
            `demo.sets.copy_set`.
        tasks: lmms-eval tasks that the demo runs.
        scores: for each task, the metric that must be a number after the run.
    """

    folder: str
    prepare: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class Judge:
    """The judge of some tasks.

    Attributes:
        default_model: Name of the default judge.
        requests: Number of requests for an answer, at most, without repeats.
        otherwise: Hint for runs without a judge; "" for none.
        probe_form: Returns the form of the test request; None for a short text.
    """

    default_model: str
    requests: int
    otherwise: str = ""
    probe_form: "ProbeForm | None" = None


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: Name of its task folders and prepared data; prefix of its tasks and its files in
            ``tasks/shared``.
        title: Title for reports and help.
        paper: Title or address of the paper; "" for none.
        splits: Its prepared splits and their official sizes.
        suite: Its tasks in ``lmms-egoplan run`` and in the suite of all benchmarks, in both
            harnesses.
        demo: Its part of the demo; None for none.
        judges: For each name of a judge in the tasks' metadata (``judge``), a function that imports
            the judge, given the preset of the tasks, "" for none.
        suite_thinking: Tasks of the suite for models that think before they answer. Default:
            `suite`.
        suite_splits: Splits that the suite needs. Default: all.
        official_questions: Returns the official number of questions of a task from one of its
            prepared rows; None if all tasks have all questions of their split.
        stated_pixels: Returns the limits on pixels of a preset, for both harnesses; None if no
            preset has any.
        load_scorers: Loads the scoring models early, to fail before a model loads; None if the
            benchmark has none.
        task_rows: Returns the rows of a prepared split that a task asks, without their images,
            given the content of the task's file; None if each task asks all rows.
        num_images: Counts the images of the questions in such rows, given the visual settings of
            the task; None if the settings do not determine it.
    """

    name: str
    title: str
    paper: str
    splits: PreparedData
    suite: tuple[str, ...]
    demo: DemoSet | None = None
    judges: Mapping[str, Callable[[str], Judge]] = field(default_factory=dict, hash=False)
    suite_thinking: tuple[str, ...] = ()
    suite_splits: tuple[str, ...] = ()
    official_questions: Callable[[Mapping[str, Any]], int] | None = None
    stated_pixels: Callable[[str], Mapping[str, int]] | None = None
    load_scorers: Callable[[], None] | None = None
    task_rows: "Callable[[Dataset, Mapping[str, Any]], Dataset] | None" = None
    num_images: "Callable[[Dataset, Mapping[str, Any]], int | None] | None" = None

    def covers(self, split: str, rows: "Dataset") -> int:
        """Return the number of questions to which the coverage of a task's results refers.

        It is 0 without rows. Rows may refer to different numbers; the smallest counts.

        Args:
            split: The task's split.
            rows: The rows that it asks, without those that ``--limit`` excludes.
        """
        columns = [
            name
            for name, feature in rows.features.items()
            if getattr(feature, "dtype", "") in _PLAIN
        ]
        sizes = self.splits.official
        base_split = split.partition("_")[0]
        split_size = sizes.get(split, sizes.get(base_split, len(rows)))
        totals = []
        for row in rows.select_columns(columns):
            official = split_size
            if self.official_questions:
                official = self.official_questions(row)
            # The total does not depend on whether the question is scored.
            values = coverage_values(row, official, scored=1)
            totals.append(values["coverage"]["of"])
        return min(totals, default=0)

    def why_unprepared(self) -> str | None:
        """Return why the suite cannot run this benchmark; None if all required splits are prepared.

        Raises:
            LmmsEgoplanError: a split is damaged or has another format.
        """
        try:
            for split in self.suite_splits or self.splits.official:
                self.splits.folder(split)  # raises if it is not prepared
        except DataMissingError as error:
            return str(error)
        return None


# Types of columns that are read to learn whose questions the rows are.
_PLAIN = ("string", "int64", "bool")


def _processed_rows(rows: "Dataset", task: Mapping[str, Any]) -> "Dataset":
    """Call the function of the package that a task's file names as ``process_docs``."""
    name = task.get("process_docs")
    return rows if name is None else resolve_name(name)(rows)


def _egoplan_pixels(preset: str) -> Mapping[str, int]:
    from lmms_egoplan.benchmarks.egoplan import presets

    return presets.stated_pixels(preset)


def _egoplan_rows(rows: "Dataset", task: Mapping[str, Any]) -> "Dataset":
    from lmms_egoplan.benchmarks.egoplan import conditions

    return conditions.asked_questions(rows, task["metadata"].get("shortcut"))


def _egoplan_images(rows: "Dataset", settings: Mapping[str, Any]) -> int | None:
    from lmms_egoplan.benchmarks.egoplan import visuals

    if settings.get("media") == "video":
        return None
    return sum(visuals.num_images(row, settings) for row in rows)


EGOPLAN = Benchmark(
    name="egoplan",
    title="EgoPlan",
    paper="https://arxiv.org/abs/2312.06722",
    splits=splits.EGOPLAN,
    suite=("egoplan_val_generate", "egoplan_val"),
    demo=DemoSet(
        folder="egoplan",
        prepare=(
            "egoplan",
            "egoplan/EgoPlan_validation.json",
            "--split=val",
            "--epic-kitchens=egoplan/epic-kitchens",
            "--ego4d=egoplan/ego4d",
        ),
        tasks=("egoplan_val", "egoplan_val_generate"),
        scores={"egoplan_val": "acc", "egoplan_val_generate": "acc"},
    ),
    suite_thinking=("egoplan_val_thinking", "egoplan_val"),
    suite_splits=("val",),
    stated_pixels=_egoplan_pixels,
    task_rows=_egoplan_rows,
    num_images=_egoplan_images,
)


EGOPLAN_BENCH2 = Benchmark(
    name="egoplan_bench2",
    title="EgoPlan-Bench2",
    paper="https://arxiv.org/abs/2412.04447",
    splits=splits.EGOPLAN_BENCH2,
    suite=("egoplan_bench2_generate", "egoplan_bench2"),
    demo=DemoSet(
        folder="egoplan-bench2",
        prepare=(
            "egoplan_bench2",
            "egoplan-bench2/EgoPlan-Bench2.json",
            "--ego4d",
            "egoplan-bench2/ego4d",
        ),
        tasks=("egoplan_bench2", "egoplan_bench2_generate"),
        scores={"egoplan_bench2": "acc", "egoplan_bench2_generate": "acc"},
    ),
    suite_thinking=("egoplan_bench2_thinking", "egoplan_bench2"),
    task_rows=_egoplan_rows,
    num_images=_egoplan_images,
)


@cache
def _egothink_judge(preset: str) -> Judge:
    """Import how EgoThink's tasks are judged."""
    from lmms_egoplan.benchmarks.egothink import judge

    return Judge(
        default_model=judge.DEFAULT_JUDGE,
        requests=1,
        otherwise=judge.OTHERWISE,
        probe_form=partial(judge.probe_form, preset=preset),
    )


def _egothink_rows(rows: "Dataset", task: Mapping[str, Any]) -> "Dataset":
    return _processed_rows(without_images(rows, "image"), task)


def _egothink_images(rows: "Dataset", _: Mapping[str, Any]) -> int:
    return len(rows)


EGOTHINK = Benchmark(
    name="egothink",
    title="EgoThink",
    paper="https://arxiv.org/abs/2311.15596",
    splits=splits.EGOTHINK,
    suite=("egothink_bench",),
    demo=DemoSet(
        folder="egothink",
        prepare=("egothink", "egothink"),
        tasks=("egothink_bench",),
        scores={"egothink_bench": "score"},
    ),
    judges={"egothink": _egothink_judge},
    task_rows=_egothink_rows,
    num_images=_egothink_images,
)


def _egointent_judge(_preset: str) -> Judge:
    from lmms_egoplan.benchmarks.egointent import judge

    return Judge(
        default_model=judge.DEFAULT_JUDGE,
        requests=len(judge.GradedStep.RATED),
        otherwise=judge.OTHERWISE,
    )


def _egointent_diagnostics_judge(_preset: str) -> Judge:
    from lmms_egoplan.benchmarks.egointent import diagnostics

    return Judge(
        default_model=diagnostics.DEFAULT_JUDGE,
        requests=len(diagnostics.SCORES),
        probe_form=diagnostics.probe_form,
    )


def _egointent_images(rows: "Dataset", settings: Mapping[str, Any]) -> int | None:
    from lmms_egoplan.benchmarks.egointent import frames

    if settings["media"] == "video":
        return None
    return sum(frames.num_shown(row, settings) for row in rows)


EGOINTENT = Benchmark(
    name="egointent",
    title="EgoIntent",
    paper="https://arxiv.org/abs/2603.12147",
    splits=splits.EGOINTENT,
    suite=("egointent",),
    demo=DemoSet(
        folder="egointent-steps",
        prepare=(
            "egointent",
            "egointent-steps/steps.jsonl",
            "--videos",
            "egointent-steps/videos",
        ),
        tasks=("egointent",),
        scores={"egointent": "overall"},
    ),
    judges={
        "egointent": _egointent_judge,
        "egointent_diagnostics": _egointent_diagnostics_judge,
    },
    task_rows=_processed_rows,
    num_images=_egointent_images,
)


def _actplan_scorers() -> None:
    from lmms_egoplan.benchmarks.actplan import scoring

    scoring.load_scorers()


def _actplan_questions(row: Mapping[str, Any]) -> int:
    from lmms_egoplan.benchmarks.actplan.instances import official_instances

    return official_instances(row)


def _actplan_rows(rows: "Dataset", task: Mapping[str, Any]) -> "Dataset":
    return _processed_rows(without_images(rows, "images"), task)


def _actplan_images(rows: "Dataset", _: Mapping[str, Any]) -> int:
    return sum((row.get("partner") or row)["num_images"] for row in rows)


ACTPLAN = Benchmark(
    name="actplan",
    title="ActPlan-1K",
    paper="https://arxiv.org/abs/2410.03907",
    splits=splits.ACTPLAN,
    suite=("actplan_bench",),
    demo=DemoSet(
        folder="actplan-annotation",
        prepare=("actplan", "actplan-annotation"),
        tasks=("actplan_bench",),
        scores={"actplan": "lcs_norm", "actplan_text_only": "lcs_norm"},
    ),
    official_questions=_actplan_questions,
    load_scorers=_actplan_scorers,
    task_rows=_actplan_rows,
    num_images=_actplan_images,
)

PIXELS = "LMMS_EGOPLAN_PIXELS"
"""Environment variable of a run that names the preset whose limits on pixels apply.

``lmms-egoplan run --protocol`` sets it.
"""

BENCHMARKS = (EGOPLAN, EGOPLAN_BENCH2, EGOTHINK, EGOINTENT, ACTPLAN)
"""All benchmarks, in the order of help texts and reports."""

DEMO_SETS = {
    benchmark.name: benchmark.demo for benchmark in BENCHMARKS if benchmark.demo is not None
}


def load_judge(name: str, preset: str = "") -> Judge:
    """Import the judge that a task's metadata name.

    Args:
        name: Key of `Benchmark.judges`.
        preset: Preset of the task; "" for none.
    """
    loaders = {key: load for benchmark in BENCHMARKS for key, load in benchmark.judges.items()}
    return loaders[name](preset)


def load_scorers(names: Collection[str]) -> None:
    """Load the scoring models of these benchmarks.

    Raises:
        LmmsEgoplanError: a scoring model cannot be loaded.
    """
    for benchmark in BENCHMARKS:
        if benchmark.load_scorers is not None and benchmark.name in names:
            benchmark.load_scorers()


def stated_pixels(preset: str) -> Mapping[str, int]:
    """Return the limits on pixels that a published pipeline states; empty if it states none."""
    for benchmark in BENCHMARKS:
        if benchmark.stated_pixels is not None:
            limits = benchmark.stated_pixels(preset)
            if limits:
                return limits
    return {}
