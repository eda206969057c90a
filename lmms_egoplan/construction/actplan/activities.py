"""The activities that instances are made of, and their descriptions in English by a language model (sec. 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.bddl import Formula, Problem, parse_problem, read_problem
from lmms_egoplan.construction.actplan.description import unnamed
from lmms_egoplan.construction.actplan.prompts import SCHEMAS, description_prompt, second_description_prompt
from lmms_egoplan.construction.actplan.soundness import flaws_in
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, shown

LAYOUT = "DIR/<activity>/problem0.bddl, as in bddl/activity_definitions of ActPlan-1K's repository"
# How the released descriptions end; 134 of 153 in these words.
INSTRUCTION = (
    "Generate admissible procedural plans using the planning steps described with action(object). The available "
    "actions include walk_to, place_on_top, grab, place_inside, open/close, and switch-on/off."
)
# Released pairs of definition and description in a prompt; the paper says "few-shot".
_NUM_EXAMPLES = 3
_INSTRUCTION_BEGINS = "Generate admissible procedural plans"

INVALID = "problem that is no valid BDDL, or contradicts itself"
NOT_COUNTERFACTUAL = "problem1.bddl without a task_description_1.txt beside it, which nobody calls counterfactual"
NO_DESCRIPTION = "reply without a description"
INCOMPLETE = "description that lacks an object or a condition, asked for twice"


@dataclass(frozen=True)
class Activity:
    """An activity's problem.

    name: as ``making_tea``.
    description: 0 for the normal activity, 1 for the counterfactual one.
    circumstance: that the problem was made for; "" for one that was read.
    changes: facts of its start that the normal activity does not have.
    category: of a circumstance; "" for a problem that was read.
    """

    name: str
    description: int
    problem: Problem
    circumstance: str = ""
    category: str = ""
    changes: tuple[Formula, ...] = ()

    @property
    def key(self) -> str:
        """``<name>/<description>``."""
        return f"{self.name}/{self.description}"


@dataclass(frozen=True)
class Example:
    """A problem with a description that people have checked; both are shown to a language model.

    is_complete: whether the description names all objects and goal conditions; some released ones do not.
    """

    activity: str
    description: int
    bddl: str
    text: str
    is_complete: bool


def read_activities(folder: Path) -> tuple[list[Activity], list[Rejection]]:
    """Read the activities of a folder, by name.

    ``problem0.bddl`` is the normal activity. ``problem1.bddl`` is the counterfactual one where
    ``task_description_1.txt`` stands beside it: the release has others, of BEHAVIOR-100.

    Raises:
        LmmsEgoplanError: there is no such folder, or no problem in it that can be used.
    """
    paths = _problem_paths(folder)
    activities: list[Activity] = []
    rejections: list[Rejection] = []
    for path in paths:
        name, number = path.parent.name, int(path.stem.removeprefix("problem"))
        where = f"{name}/{path.name}"
        if number and not _text_path(path).is_file():
            rejections.append(Rejection("problem", NOT_COUNTERFACTUAL, where))
            continue
        try:
            problem = read_problem(path)
            wrong = "; ".join(flaws_in(problem))
        except LmmsEgoplanError as error:
            wrong = str(error)
        if wrong:
            rejections.append(Rejection("problem", INVALID, where, wrong))
        else:
            activities.append(Activity(name, number, problem))
    if not activities:
        first = next((f"{left.where}: {left.detail}" for left in rejections), "")
        raise LmmsEgoplanError(f"{folder}: none of its {len(paths)} problems can be used. The first: {first}")
    return activities, rejections


def read_examples(folder: Path) -> list[Example]:
    """Read the problems of a folder that have a description, without its instruction.

    Raises:
        LmmsEgoplanError: there is no such folder, no pair in it, or a file that cannot be read.
    """
    examples = []
    for path in _problem_paths(folder):
        if _text_path(path).is_file():
            text = read_text(_text_path(path)).partition(_INSTRUCTION_BEGINS)[0].strip()
            if is_text(text):
                number, bddl = int(path.stem.removeprefix("problem")), read_text(path).strip()
                examples.append(Example(path.parent.name, number, bddl, text, _is_complete(bddl, text)))
    if not examples:
        raise LmmsEgoplanError(
            f"{folder}: no problem<n>.bddl has a task_description_<n>.txt beside it, to show a language model as an "
            "example. Give ActPlan-1K's bddl/activity_definitions with --examples"
        )
    return examples


def examples_for(activity: Activity, examples: Sequence[Example], count: int) -> list[tuple[str, str]]:
    """Choose definitions and descriptions of other activities, always the same ones.

    Complete descriptions come before others, and those of the same setting before those of the other one.
    """
    others = [example for example in examples if example.activity != activity.name]

    def order(example: Example) -> tuple[bool, bool, str]:
        drawn = sha256(f"{activity.key} {example.activity}/{example.description}".encode()).hexdigest()
        return not example.is_complete, example.description != activity.description, drawn

    return [(example.bddl, example.text) for example in sorted(others, key=order)[:count]]


def describe(
    activities: Sequence[Activity], examples: Sequence[Example], settings: JudgeSettings
) -> tuple[dict[str, str], list[Rejection]]:
    """Describe each activity, by its key, with the instruction; or say why there is no description.

    A description that lacks an object or a condition is asked for once more, with what it lacks.

    Args:
        examples: of which each prompt shows some, none of the activity's own.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    by_key = {activity.key: activity for activity in activities}
    prompts = {
        key: description_prompt(each.problem, examples_for(each, examples, _NUM_EXAMPLES), each.circumstance)
        for key, each in by_key.items()
    }
    texts: dict[str, str] = {}
    rejections: list[Rejection] = []
    incomplete: dict[str, tuple[str, list[str]]] = {}
    for title in ("descriptions", "descriptions, second time"):
        replies, unread = ask_json("description", prompts, settings, title, schema=SCHEMAS["describe"])
        rejections += unread
        if settings.asking.is_estimate and not incomplete:  # each may be asked for twice
            replies = {key: {"description": str(activity.problem)} for key, activity in by_key.items()}
        incomplete = {}
        for key, reply in replies.items():
            if not is_text(reply.get("description")):
                rejections.append(Rejection("description", NO_DESCRIPTION, key, shown(reply)))
                continue
            text = " ".join(reply["description"].split())
            absent = _absent(by_key[key], text)
            if absent:
                incomplete[key] = (text, absent)
            if not absent or settings.asking.is_estimate:
                texts[key] = text
        if not incomplete:
            break
        prompts = {key: second_description_prompt(prompts[key], *found) for key, found in incomplete.items()}
    rejections += [
        Rejection("description", INCOMPLETE, key, f"{'; '.join(absent)}: {shown(text)}")
        for key, (text, absent) in incomplete.items()
    ]
    return {key: f"{texts[key]}\n{INSTRUCTION}\n" for key in by_key if key in texts}, rejections


def _absent(activity: Activity, text: str) -> list[str]:
    """Find the objects, goal conditions and counterfactual facts that a text does not name."""
    found = unnamed(activity.problem, text)
    if not activity.changes:
        return [*found.objects, *found.conditions]
    changed = unnamed(replace(activity.problem, goal=activity.changes), text)
    return [*found.objects, *dict.fromkeys((*found.conditions, *changed.conditions))]


def _is_complete(bddl: str, text: str) -> bool:
    try:
        return not unnamed(parse_problem(bddl, "example"), text)
    except LmmsEgoplanError:
        return False


def _problem_paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no such folder; expected {LAYOUT}")
    paths = sorted(path for number in (0, 1) for path in folder.glob(f"*/problem{number}.bddl"))
    if not paths:
        raise LmmsEgoplanError(f"{folder}: no BDDL problem; expected {LAYOUT}")
    return paths


def _text_path(problem: Path) -> Path:
    return problem.with_name(f"task_description_{problem.stem.removeprefix('problem')}.txt")
