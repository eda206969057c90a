"""Which runs have EgoIntent's task, and how each step was answered and rated in them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lmms_egoplan.benchmarks.egointent.answer_files import TASK, logged_group, prompt_versions
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.report.by_question import by_question, unreadable
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.validation import shown

# What is used of a logged step.
_DOC_TEXTS = (*FIELDS, "video_path")
_DOC_TIMES = ("start_sec", "end_sec")
_LONGEST = 1e9
# Versions of the task that logged a Goal-Step step's category as its scenario.
_CATEGORY_AS_SCENARIO = ("1.0", "1.1")

Key = tuple[str, str]
"""A step's id and its video, since other annotations may use the same ids."""


@dataclass(frozen=True)
class Step:
    """How one step was answered and rated.

    group: its scenario; of a Goal-Step step, the category of its goal.
    doc: the prepared row, which lm-eval alone logs.
    """

    graded: GradedStep
    video_id: str
    group: str
    environment: str
    unverified: bool
    is_goalstep: bool
    doc: Mapping[str, Any] | None


@dataclass(frozen=True)
class Graded:
    """One task of a run.

    name: the run's, with the task where that is a variant that a user made, and with `GOALSTEP_STEPS` where it is over
        these.
    run: its plain name.
    steps: None without samples.
    """

    name: str
    run: str
    task_run: TaskRun
    steps: dict[Key, Step] | None
    is_goalstep: bool

    def number(self, metric: str) -> int | float | None:
        return self.task_run.number(metric)

    def percent(self, metric: str) -> float | None:
        """Of a share."""
        value = self.number(metric)
        return None if value is None else 100 * value

    @property
    def judge(self) -> str | None:
        judge = self.task_run.metrics.get("judge_model")
        return None if judge in (None, "none") else judge

    @property
    def media(self) -> str | None:
        """The form in which the model was shown the steps; None in runs of earlier versions, which do not tell."""
        media = self.task_run.metrics.get("media")
        return media if isinstance(media, str) else None

    @property
    def prompts(self) -> tuple[str | None, str | None]:
        """Versions of the prompt and the judge's, as `LoggedRun` has them."""
        return prompt_versions(self.task_run.config)

    def shares(self) -> dict[str, Value]:
        """What the scores are over, what was shown, who judged and by which prompts, for columns beside the scores."""
        names = {"judged": "judge_coverage"}
        percent = {
            name: self.percent(names.get(name, name))
            for name in ("coverage", "parsed", "judged", "truncated", "unverified", "suspect")
        }
        prompts = ", ".join(version or "unknown" for version in self.prompts)
        texts = {"judge": self.judge, "prompts": prompts, "media": self.media}
        return {"questions": self.number("num_steps")} | texts | percent


def graded_runs(runs: Iterable[Run]) -> list[Graded]:
    """The task and its variants in these runs.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the task logs, or a step is there twice.
    """
    found = []
    for run in runs:
        for task_run in run.tasks.values():
            if shared_file(task_run.config) == "egointent":
                name = run.name if task_run.task == TASK else f"{run.name} ({task_run.task})"
                steps = None
                if task_run.samples is not None:
                    read = (_step(run, task_run, sample) for sample in task_run.samples)
                    steps = by_question(run, task_run, read, lambda key: f"step {key[0]} of video {key[1]}")
                is_goalstep = _is_goalstep(task_run, steps)
                name += f" ({GOALSTEP_STEPS})" * is_goalstep
                found.append(Graded(name, run.name, task_run, steps, is_goalstep))
    return found


def _is_goalstep(task_run: TaskRun, steps: Mapping[Key, Step] | None) -> bool:
    """Whether a task of a run is over Goal-Step steps; by its scores where it has no samples."""
    if steps:
        return any(step.is_goalstep for step in steps.values())
    scores = task_run.metrics
    was_scenario = task_run.version in _CATEGORY_AS_SCENARIO and scores.get("unverified") == 1
    return was_scenario or isinstance(scores.get("category"), Mapping)


def _step(run: Run, task_run: TaskRun, sample: Mapping[str, Any]) -> tuple[Key, Step]:
    record, doc = sample.get("overall", {}), sample.get("doc")
    told = {field.name: record[field.name] for field in fields(GradedStep) if field.name in record}
    try:
        graded = GradedStep.from_text(json.dumps(told))
        unverified = sample.get("unverified") == {"unverified": True}
        group, is_goalstep = logged_group(record, unverified)
        names = ("video_id", group, "environment")
        places = [record.get(name) for name in names]
        if not all(isinstance(place, str) for place in places):
            raise ValueError(f"step {graded.step_id}: {', '.join(names)} must be texts, got {places}")
        if doc is not None and (problem := _doc_problem(doc)):
            raise ValueError(f"step {graded.step_id}: the logged step: {problem}")
    except ValueError as error:
        raise unreadable(run, task_run, error) from error
    step = Step(graded, *places, unverified, is_goalstep, doc)
    return (graded.step_id, step.video_id), step


def _doc_problem(doc: Any) -> str | None:
    """Why the gallery cannot show a logged step."""
    if not isinstance(doc, dict):
        return f"expected an object, found {shown(doc)}"
    for name in _DOC_TEXTS:
        if not isinstance(doc.get(name), str):
            return f"{name}: expected a text, found {shown(doc.get(name))}"
    for name in _DOC_TIMES:
        time = doc.get(name)
        if type(time) not in (int, float) or not abs(time) < _LONGEST:
            return f"{name}: expected seconds, found {shown(time)}"
    return None
