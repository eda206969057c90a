"""Write the YAML files of tasks that vary another task: dimensions, conditions and presets.

    python tools/make_tasks.py

They are in subfolders of ``tasks/<harness>/<benchmark>/``. Files elsewhere are written by hand. Run
it after a change of conditions, dimensions or presets, or of the tasks that they vary. A test
compares the files.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD
from lmms_egoplan.benchmarks.egoplan.presets import load_presets as load_planning_presets
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.benchmarks.egothink.presets import LM_EVAL_NAMES, prompts_of
from lmms_egoplan.benchmarks.egothink.presets import load_presets as load_egothink_presets
from lmms_egoplan.benchmarks.presets import Preset
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.task_files import FunctionName, read_task_file

Content = dict[str, Any]
"""Entries of a YAML file, with functions as `FunctionName`."""

SUBFOLDERS = ("dimensions", "conditions", "presets")

OWN_FRAMES = ("last_frame", "first_frame", "frozen", "shuffled", "reversed")
OTHER_VIDEOS = ("same_goal_video", "other_goal_video")
LAST_ACTIONS = ("last_1_action", "last_2_actions", "last_4_actions")
TEXT_ONLY = ("blind", "candidates_only")

EGOINTENT_CONDITIONS = (
    "blind",
    "last_frame",
    "first_frame",
    "frozen",
    "shuffled",
    "reversed",
    "other_video",
    "last_quarter",
    "without_boundary",
    "with_history",
)
EGOTHINK_CONDITIONS = ("blind", "other_image", "marked")


@dataclass(frozen=True)
class PlanningBenchmark:
    """EgoPlan-Bench or EgoPlan-Bench2.

    Attributes:
        name: Name of the benchmark.
        task: The ranked task, which the conditions vary.
        condition_version: Version of the conditions.
        preset_version: Version of the presets.
        other_versions: Other versions, by task.
    """

    name: str
    task: str
    condition_version: float
    preset_version: float
    other_versions: Mapping[str, float]

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions, in the order of the group."""
        return (*TEXT_ONLY, "without_goal", *OWN_FRAMES, *OTHER_VIDEOS, *LAST_ACTIONS)


PLANNING_BENCHMARKS = (
    PlanningBenchmark(
        name="egoplan",
        task="egoplan_val",
        condition_version=1.3,
        preset_version=1.3,
        other_versions={"egoplan_val_blind": 1.4},
    ),
    PlanningBenchmark(
        name="egoplan_bench2",
        task="egoplan_bench2",
        condition_version=1.3,
        preset_version=1.3,
        other_versions={"egoplan_bench2__physbrain-evalkit-thinking": 1.2},
    ),
)


class _Dumper(yaml.SafeDumper):
    """Write functions as ``!function NAME``, and indent lists."""

    def choose_scalar_style(self) -> str:
        if self.event.tag == "!function":
            return ""
        return str(super().choose_scalar_style())

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _written_function(dumper: yaml.SafeDumper, name: FunctionName) -> yaml.ScalarNode:
    """Return a function's name relative to a subfolder.

    Raises:
        ValueError: It is in ``task.py``, which lm-eval does not find from there.
    """
    if name.startswith("task."):
        raise ValueError(f"{name}: lm-eval finds no such function from a subfolder")
    if name.startswith("utils."):
        return dumper.represent_scalar("!function", f"../{name}")
    return dumper.represent_scalar("!function", str(name))


def _written_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a text; one with line breaks in double quotes."""
    style = '"' if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(FunctionName, _written_function)
_Dumper.add_representer(str, _written_text)


@dataclass(frozen=True)
class TaskFile:
    """A YAML file to write."""

    path: Path
    comments: Sequence[str]
    content: Content

    @property
    def text(self) -> str:
        """The text of the file."""
        lines = ["# Written by tools/make_tasks.py."]
        for comment in self.comments:
            lines += [f"# {line}" for line in textwrap.wrap(comment, 118)]
        body = yaml.dump(self.content, Dumper=_Dumper, sort_keys=False, width=1000)
        return "\n".join([*lines, body])


@dataclass(frozen=True)
class Folder:
    """The folder of a benchmark's tasks for a harness."""

    harness: str
    benchmark: str

    @property
    def is_lmms_eval(self) -> bool:
        """True for lmms-eval, false for lm-eval."""
        return self.harness == "lmms-eval"

    def read(self, name: str) -> Content:
        """Read a file that is written by hand."""
        return read_task_file(TASK_FOLDERS[self.harness] / self.benchmark / f"{name}.yaml")

    def task_file(self, subfolder: str, content: Content, *comments: str) -> TaskFile:
        """Return the file of a task or group, which has its name."""
        name = content.get("group", content.get("task"))
        path = TASK_FOLDERS[self.harness] / self.benchmark / subfolder / f"{name}.yaml"
        return TaskFile(path, comments, content)

    def generation_arguments(self, decoding: Mapping[str, Any]) -> Content:
        """Return generation arguments by the harness's names."""
        if self.is_lmms_eval:
            return dict(decoding)
        return {LM_EVAL_NAMES.get(name, name): value for name, value in decoding.items()}


def task_texts() -> dict[Path, str]:
    """Return the text of each file by path."""
    texts = {}
    for harness in TASK_FOLDERS:
        for task_file in _task_files(harness):
            texts[task_file.path] = task_file.text
    return texts


def _task_files(harness: str) -> Iterator[TaskFile]:
    for benchmark in PLANNING_BENCHMARKS:
        folder = Folder(harness, benchmark.name)
        yield from _planning_conditions(folder, benchmark)
        yield from _planning_presets(folder, benchmark)
    yield from _egointent_conditions(Folder(harness, "egointent"))
    yield from _actplan_conditions(Folder(harness, "actplan"))
    yield from _egothink_files(Folder(harness, "egothink"))


def _missing(shortcut: str) -> str:
    """Return the comment of a condition's file."""
    return f"Missing: {SHORTCUTS[shortcut].missing}."


def _shortcut_group(folder: Folder, name: str, tasks: Sequence[str], version: float) -> TaskFile:
    """Return the file of a group of own tasks and their conditions."""
    content = {"group": name, "task": list(tasks), "metadata": {"version": version}}
    return folder.task_file(
        "conditions", content, "Tasks and their conditions. The group has no average."
    )


# EgoPlan-Bench and EgoPlan-Bench2


def _planning_conditions(folder: Folder, benchmark: PlanningBenchmark) -> Iterator[TaskFile]:
    own = folder.read(benchmark.task)["metadata"]
    tasks = [benchmark.task]
    for shortcut in benchmark.conditions:
        task = f"{benchmark.task}_{shortcut}"
        metadata = own | {
            "version": benchmark.other_versions.get(task, benchmark.condition_version),
            "shortcut": shortcut,
            "condition_of": benchmark.task,
        }
        if folder.is_lmms_eval:
            content = _condition_in_lmms_eval(task, shortcut)
        else:
            content = _condition_in_lm_eval(task, shortcut)
        if shortcut in TEXT_ONLY:
            metadata.pop("num_frames", None)
        if task == "egoplan_val_blind":
            # The only condition under the tag of the own tasks.
            content["tag"] = "egocentric_planning"
        content["metadata"] = metadata
        yield folder.task_file("conditions", content, _missing(shortcut))
        tasks.append(task)
    yield _shortcut_group(folder, f"{benchmark.task}_shortcuts", tasks, own["version"])


def _condition_in_lmms_eval(task: str, shortcut: str) -> Content:
    content: Content = {"include": "../_shortcut.yaml", "task": task}
    if shortcut in TEXT_ONLY:
        content["doc_to_visual"] = FunctionName("lmms_egoplan.benchmarks.conditions.no_visual")
        content["lmms_eval_specific_kwargs"] = {"default": {}}
    elif shortcut != "without_goal":
        content["doc_to_visual"] = FunctionName(f"utils.{shortcut}")
    if shortcut == "candidates_only":
        content["doc_to_text"] = ""
    if shortcut == "without_goal":
        content["doc_to_text"] = FunctionName(
            "lmms_egoplan.benchmarks.egoplan.prompts.without_goal"
        )
    if shortcut in ("without_goal", *OTHER_VIDEOS):
        content["process_docs"] = FunctionName(
            f"lmms_egoplan.benchmarks.egoplan.conditions.ask_{shortcut}"
        )
    return content


def _condition_in_lm_eval(task: str, shortcut: str) -> Content:
    """Return the content without metadata, whose shortcut selects questions and frames."""
    if shortcut == "blind":
        return {"include": "../_text_shortcut.yaml", "task": task, "doc_to_text": "question"}
    if shortcut == "candidates_only":
        return {"include": "../_text_shortcut.yaml", "task": task, "doc_to_text": ""}
    content: Content = {"include": "../_shortcut.yaml", "task": task}
    if shortcut == "without_goal":
        content["doc_to_text"] = FunctionName(
            "lmms_egoplan.harnesses.lm_eval.choices.doc_to_text_without_goal"
        )
    return content


def _planning_presets(folder: Folder, benchmark: PlanningBenchmark) -> Iterator[TaskFile]:
    own = folder.read(benchmark.task)["metadata"]
    for preset in load_planning_presets(benchmark.name).values():
        task = f"{benchmark.name}__{preset.name}"
        is_ranked = preset.parser == LIKELIHOOD
        base = "_preset_ranking" if is_ranked else "_preset"
        content: Content = {"include": f"../{base}.yaml", "task": task}
        comments = [preset.source]
        if preset.unknown:
            comments.append(f"Not stated by the source: {', '.join(preset.unknown)}.")
        if not is_ranked:
            content["generation_kwargs"] = {
                "until": [],
                **folder.generation_arguments(preset.decoding),
            }
        metadata = {
            "version": benchmark.other_versions.get(task, benchmark.preset_version),
            **folder.read(base)["metadata"],
            "preset": preset.name,
        }
        if folder.is_lmms_eval:
            scorer = preset.name.replace("-", "_").replace(".", "_")
            content["process_results"] = FunctionName(f"utils.score_{scorer}")
            content["lmms_eval_specific_kwargs"] = _visual_settings(preset)
            metadata["data"] = own["data"]
        else:
            metadata |= _image_settings(preset)
            if preset.media["media"] != "frames":
                comments.append("lm-eval has no video input, so the model gets images.")
        content["metadata"] = metadata
        yield folder.task_file("presets", content, *comments)


def _visual_settings(preset: Preset) -> Content:
    """Return the settings of the media for each backend of lmms-eval."""
    settings = preset.visual_settings
    if preset.parser != LIKELIHOOD:
        settings = {"preset": preset.name, **settings}
    if preset.media["media"] != "timed_frames":
        return {"default": settings}
    # Other backends take a video only as a file.
    return {"default": {**settings, "media": "frames"}, "hf_vlm": settings}


def _image_settings(preset: Preset) -> Content:
    """Return the settings of the frames in lm-eval, which has no video input."""
    if preset.parser == LIKELIHOOD:
        return dict(preset.media)
    settings = preset.visual_settings
    if preset.media["media"] == "video":
        return {
            "media": "frames",
            "num_frames": 8,
            "as_published": True,
            "observation": preset.observation,
        }
    return {**settings, "media": "frames"}


# EgoIntent and ActPlan-1K


def _egointent_conditions(folder: Folder) -> Iterator[TaskFile]:
    own = folder.read("egointent")["metadata"]
    for shortcut in (*EGOINTENT_CONDITIONS, "leakage"):
        content: Content = {
            "include": "../egointent.yaml",
            "task": f"egointent_{shortcut}",
            "tag": [],
        }
        metadata = own | {"shortcut": shortcut, "condition_of": "egointent"}
        if shortcut == "leakage":
            content["test_split"] = "leakage"
            if folder.is_lmms_eval:
                content["dataset_path"] = FunctionName("utils.LEAKAGE")
                metadata["data"] = FunctionName("utils.LEAKAGE_DATA")
        else:
            content["process_docs"] = FunctionName(
                f"lmms_egoplan.benchmarks.egointent.conditions.under_{shortcut}"
            )
        if shortcut == "blind" and not folder.is_lmms_eval:
            content["doc_to_image"] = None
        content["metadata"] = metadata
        yield folder.task_file("conditions", content, _missing(shortcut))
    # Without the leakage task: it alone shows frames after the cut.
    tasks = ["egointent", *(f"egointent_{shortcut}" for shortcut in EGOINTENT_CONDITIONS)]
    yield _shortcut_group(folder, "egointent_shortcuts", tasks, own["version"])


def _actplan_conditions(folder: Folder) -> Iterator[TaskFile]:
    own = folder.read("actplan")["metadata"]
    content: Content = {
        "include": "../_actplan.yaml",
        "task": "actplan_views_swapped",
        "process_docs": FunctionName("lmms_egoplan.benchmarks.actplan.conditions.views_swapped"),
        "metadata": own | {"shortcut": "views_swapped", "condition_of": "actplan"},
    }
    yield folder.task_file("conditions", content, _missing("views_swapped"))
    tasks = ("actplan", "actplan_text_only", "actplan_views_swapped")
    yield _shortcut_group(folder, "actplan_shortcuts", tasks, own["version"])


# EgoThink


@dataclass(frozen=True)
class DimensionTask:
    """The task of a dimension, or of a condition of it."""

    folder: Folder
    dimension: Dimension
    shortcut: str = ""

    @property
    def name(self) -> str:
        """Name of the task."""
        if self.shortcut:
            return f"{self.dimension.task}_{self.shortcut}"
        return self.dimension.task

    @property
    def subfolder(self) -> str:
        """Subfolder of its file."""
        return "conditions" if self.shortcut else "dimensions"

    @property
    def base(self) -> str:
        """File with the settings of dimensions with short answers, or of those with plans."""
        return "_planning" if self.dimension.capability == "planning" else "_general"

    @property
    def split(self) -> str:
        """Name of its split. Images with marks are a split of their own."""
        if self.shortcut == "marked":
            return f"{self.dimension.name}_marked"
        return self.dimension.name

    def metadata(self, preset: str = "") -> Content:
        """Return the metadata of the task, or of its variant that follows a preset."""
        metadata = dict(self.folder.read("_egothink")["metadata"])
        if self.folder.is_lmms_eval:
            metadata["data"] = FunctionName(f"utils.{self.split.upper()}_DATA")
        if self.shortcut:
            metadata["shortcut"] = self.shortcut
            metadata["condition_of"] = _variant_name(self.dimension.task, preset)
        if preset:
            metadata["asked_as"] = preset
        if preset and not self.folder.is_lmms_eval:
            metadata["prompts"] = prompts_of(preset)
        return metadata

    def own_file(self) -> TaskFile:
        """Return the task's file."""
        if self.shortcut:
            return self._condition_file()
        content: Content = {"include": f"../{self.base}.yaml", "task": self.name}
        content["test_split"] = self.split
        if self.folder.is_lmms_eval:
            data = f"utils.{self.split.upper()}"
            content["dataset_path"] = FunctionName(data)
            content["lmms_eval_specific_kwargs"] = FunctionName(f"{data}_PROMPTS")
            content["metadata"] = self.metadata()
        return self.folder.task_file(self.subfolder, content)

    def _condition_file(self) -> TaskFile:
        own = f"../dimensions/{self.dimension.task}.yaml"
        condition = f"../_{self.shortcut}.yaml"
        # The condition's entries win: in lmms-eval those of the first file, in lm-eval of the last.
        included = [condition, own] if self.folder.is_lmms_eval else [own, condition]
        content: Content = {"include": included, "task": self.name}
        if self.shortcut == "marked":
            content["test_split"] = self.split
            if self.folder.is_lmms_eval:
                content["dataset_path"] = FunctionName(f"utils.{self.split.upper()}")
        content["metadata"] = self.metadata()
        return self.folder.task_file(self.subfolder, content, _missing(self.shortcut))

    def preset_file(self, preset: Preset) -> TaskFile:
        """Return the file of the task that follows a preset. It is only part of groups."""
        decoding = preset.of_dimension(self.dimension.name).decoding
        content: Content = {
            "include": f"../{self.subfolder}/{self.name}.yaml",
            "task": _variant_name(self.name, preset.name),
            "tag": [],
        }
        if not self.folder.is_lmms_eval:
            own_arguments = self.folder.read(self.base)["generation_kwargs"]
            content["generation_kwargs"] = own_arguments | self.folder.generation_arguments(
                decoding
            )
        else:
            if decoding:
                # They are added to the dimension's.
                content["model_specific_generation_kwargs"] = {"default": dict(decoding)}
            content["lmms_eval_specific_kwargs"] = {"default": {"preset": preset.name}}
            judged = {"function": FunctionName("utils.Judged"), "preset": preset.name}
            content["filter_list"] = [{"name": "judged", "filter": [judged]}]
        content["metadata"] = self.metadata(preset.name)
        return self.folder.task_file("presets", content, preset.source)


def _variant_name(name: str, preset: str) -> str:
    """Return the name of a preset's variant; ``egothink__PRESET`` for the whole benchmark."""
    if not preset:
        return name
    if name == "egothink_bench":
        name = "egothink"
    return f"{name}__{preset}"


def _egothink_files(folder: Folder) -> Iterator[TaskFile]:
    groups = _egothink_groups(folder)
    yield from groups
    for shortcut in ("", *EGOTHINK_CONDITIONS):
        for dimension in DIMENSIONS:
            task = DimensionTask(folder, dimension, shortcut)
            yield task.own_file()
            if shortcut in ("", "marked"):
                for preset in load_egothink_presets().values():
                    yield task.preset_file(preset)
    marked = next(group for group in groups if group.path.stem == "egothink_marked")
    capabilities = [group for group in groups if group.path.parent.name == "dimensions"]
    for preset in load_egothink_presets().values():
        for group in (*capabilities, marked):
            include = f"../{group.path.parent.name}/{group.path.name}"
            yield _preset_group(folder, preset, include, group.content)
        yield _preset_group(folder, preset, "../egothink_bench.yaml", folder.read("egothink_bench"))


def _egothink_groups(folder: Folder) -> list[TaskFile]:
    """Return the files of the groups of each capability, and of the conditions."""
    whole = folder.read("egothink_bench")
    groups = []
    for capability in dict.fromkeys(dimension.capability for dimension in DIMENSIONS):
        content = {
            "group": f"egothink_bench_{capability}",
            "task": [
                dimension.task for dimension in DIMENSIONS if dimension.capability == capability
            ],
            "aggregate_metric_list": [
                {"metric": "score", "weight_by_size": False},
                {"metric": "judge_coverage", "weight_by_size": True},
            ],
            "metadata": whole["metadata"],
        }
        comment = "Plain mean over the dimensions, as in Table 3."
        groups.append(folder.task_file("dimensions", content, comment))
    for shortcut in EGOTHINK_CONDITIONS:
        content = {
            "group": f"egothink_{shortcut}",
            "task": [f"{dimension.task}_{shortcut}" for dimension in DIMENSIONS],
            "aggregate_metric_list": whole["aggregate_metric_list"],
            "metadata": whole["metadata"],
        }
        comment = "Plain mean over the twelve dimensions, as in egothink_bench."
        groups.append(folder.task_file("conditions", content, _missing(shortcut), comment))
    tasks = ("egothink_bench", "egothink_blind", "egothink_other_image")
    groups.append(
        _shortcut_group(folder, "egothink_shortcuts", tasks, whole["metadata"]["version"])
    )
    return groups


def _preset_group(folder: Folder, preset: Preset, include: str, own: Content) -> TaskFile:
    """Return the file of a group whose tasks follow a preset."""
    content = {
        "include": include,
        "group": _variant_name(own["group"], preset.name),
        "task": [_variant_name(task, preset.name) for task in own["task"]],
        "metadata": own["metadata"] | {"asked_as": preset.name},
    }
    return folder.task_file("presets", content, preset.source)


def written_files() -> list[Path]:
    """Return the files in the subfolders."""
    paths: list[Path] = []
    for folder in TASK_FOLDERS.values():
        for subfolder in SUBFOLDERS:
            paths += folder.glob(f"*/{subfolder}/*.yaml")
    return sorted(paths)


def main() -> None:
    texts = task_texts()
    for path in written_files():
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
