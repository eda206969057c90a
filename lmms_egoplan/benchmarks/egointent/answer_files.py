"""EgoIntent's scores as a harness logged them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egointent.scoring import GradedStep

# And the beginning of the names of variants that users make of it, egointent_16.
TASK = "egointent"


@dataclass(frozen=True)
class LoggedStep:
    """One step of a run.

    group: its scenario; of a Goal-Step step, the category of its goal.
    unverified: nobody has verified its references.
    """

    graded: GradedStep
    group: str
    unverified: bool
    is_goalstep: bool = False


def prompt_versions(task: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Versions of a task's prompt and of its judge's, with whether the judge rated all fields in one request.

    None where the results do not tell.

    Args:
        task: its settings, as a harness logs them.
    """
    metadata = task.get("metadata")
    versions = metadata if isinstance(metadata, dict) else {}
    prompt, judge_prompt = (None if versions.get(x) is None else str(versions[x]) for x in ("prompt", "judge_prompt"))
    if '"together": true' in json.dumps(task.get("filter_list")):
        judge_prompt = f"{judge_prompt or 'unknown'} with all fields in one request"
    return prompt, judge_prompt
