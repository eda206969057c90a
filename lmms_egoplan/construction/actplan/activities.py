"""Read activities, and describe them in English with a language model (sec. 3.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.construction.actplan.bddl import Formula, Problem, parse_problem, read_problem
from lmms_egoplan.construction.actplan.description import unnamed_objects
from lmms_egoplan.construction.actplan.prompts import (
    SCHEMAS,
    description_prompt,
    second_description_prompt,
)
from lmms_egoplan.construction.actplan.soundness import flaws_in
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, quoted

LAYOUT = "DIR/<activity>/problem0.bddl, as in bddl/activity_definitions of ActPlan-1K's repository"
# The end of the released descriptions; 134 of 153 have exactly this text.
INSTRUCTION = (
    "Generate admissible procedural plans using the planning steps described with action(object). "
    "The available actions include walk_to, place_on_top, grab, place_inside, open/close, and "
    "switch-on/off."
)
# Number of released pairs of definition and description in a prompt; the paper says "few-shot".
_NUM_EXAMPLES = 3
_INSTRUCTION_BEGINS = "Generate admissible procedural plans"

INVALID = "problem is not valid BDDL, or contradicts itself"
NOT_COUNTERFACTUAL = (
    "problem1.bddl without a task_description_1.txt next to it, so not marked as counterfactual"
)
NO_DESCRIPTION = "reply without a description"
INCOMPLETE = "description that does not name every object, even after two requests"


@dataclass(frozen=True)
class Activity:
    """An activity with its problem.

    name: Name such as ``making_tea``.
    description: 0 for the normal activity, 1 for the counterfactual one.
    problem: The problem in BDDL.
    circumstance: The circumstance of a generated problem; "" for a problem that was read from a
    file.
    category: Category of the circumstance; "" for a problem that was read from a file.
    changes: Initial facts that the normal activity does not have.
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
    """A problem with a human-checked description, which a language model sees as an example.

    activity: Name of the activity.
    description: 0 for the normal activity, 1 for the counterfactual one.
    bddl: The problem in BDDL.
    text: The description without its instruction.
    is_complete: True if the description names all objects; some released descriptions do not.
    """

    activity: str
    description: int
    bddl: str
    text: str
    is_complete: bool


def read_activities(folder: Path) -> tuple[list[Activity], list[Rejection]]:
    """Read the activities in a folder, sorted by name.

    ``problem0.bddl`` is the normal activity. ``problem1.bddl`` is the counterfactual one if
    ``task_description_1.txt`` is next to it. Other files named ``problem1.bddl`` in the release are
    from BEHAVIOR-100.

    Raises:
        LmmsEgoplanError: The folder does not exist, or contains no usable problem.
    """
    paths = _problem_paths(folder)
    activities: list[Activity] = []
    rejections: list[Rejection] = []
    for path in paths:
        name = path.parent.name
        number = int(path.stem.removeprefix("problem"))
        where = f"{name}/{path.name}"
        if number and not _text_path(path).is_file():
            rejections.append(Rejection("problem", NOT_COUNTERFACTUAL, where))
            continue
        try:
            problem = read_problem(path)
            flaws = "; ".join(flaws_in(problem))
        except LmmsEgoplanError as error:
            flaws = str(error)
        if flaws:
            rejections.append(Rejection("problem", INVALID, where, flaws))
        else:
            activities.append(Activity(name, number, problem))
    if not activities:
        first = next((f"{rejection.where}: {rejection.detail}" for rejection in rejections), "")
        raise LmmsEgoplanError(
            f"{folder}: none of its {len(paths)} problems can be used. First reason: {first}"
        )
    return activities, rejections


def read_examples(folder: Path) -> list[Example]:
    """Read the problems in a folder that have a description; the instruction at its end is removed.

    Raises:
        LmmsEgoplanError: The folder does not exist or contains no such pair, or a file cannot be
            read.
    """
    examples = []
    for path in _problem_paths(folder):
        if _text_path(path).is_file():
            text = without_instruction(read_text(_text_path(path)))
            if is_text(text):
                number = int(path.stem.removeprefix("problem"))
                bddl = read_text(path).strip()
                examples.append(
                    Example(path.parent.name, number, bddl, text, _is_complete(bddl, text))
                )
    if not examples:
        raise LmmsEgoplanError(
            f"{folder}: no problem<n>.bddl has a task_description_<n>.txt next to it, so there are "
            "no examples for the language model. Pass ActPlan-1K's bddl/activity_definitions with "
            "--examples"
        )
    return examples


def examples_for(
    activity: Activity, examples: Sequence[Example], count: int
) -> list[tuple[str, str]]:
    """Choose definitions and descriptions of other activities, deterministically.

    Complete descriptions are preferred, then those of the same setting.
    """
    candidates = [example for example in examples if example.activity != activity.name]

    def order(example: Example) -> tuple[bool, bool, str]:
        digest = sha256(
            f"{activity.key} {example.activity}/{example.description}".encode()
        ).hexdigest()
        return not example.is_complete, example.description != activity.description, digest

    return [(example.bddl, example.text) for example in sorted(candidates, key=order)[:count]]


@dataclass(frozen=True)
class _Draft:
    """A description, and the types of objects that it does not name."""

    text: str
    unnamed: Sequence[str]


def describe(
    activities: Sequence[Activity], examples: Sequence[Example], settings: JudgeSettings
) -> tuple[dict[str, str], list[Rejection]]:
    """Describe each activity with a language model.

    If a description does not name all objects, a second request lists the missing ones.

    Args:
        activities: The activities.
        examples: Each prompt shows some of these examples, but never one of the same activity.
        settings: Settings of the language model.

    Returns:
        The descriptions with the instruction, by the activity's key; and the rejections.

    Raises:
        JudgeError: The language model cannot be asked.
    """
    by_key = {activity.key: activity for activity in activities}
    prompts = {
        key: description_prompt(
            activity.problem, examples_for(activity, examples, _NUM_EXAMPLES), activity.circumstance
        )
        for key, activity in by_key.items()
    }
    drafts, rejections = _drafts(by_key, prompts, settings, "descriptions")
    second_prompts = {
        key: second_description_prompt(prompts[key], draft.text, draft.unnamed)
        for key, draft in drafts.items()
        if draft.unnamed
    }
    second_drafts, second_rejections = _drafts(
        by_key, second_prompts, settings, "descriptions, second time"
    )
    rejections += second_rejections
    drafts |= second_drafts
    texts: dict[str, str] = {}
    for key in by_key:
        if key not in drafts:
            continue
        draft = drafts[key]
        if not draft.unnamed or settings.options.is_estimate:
            texts[key] = f"{draft.text}\n{INSTRUCTION}\n"
        elif key in second_drafts:
            detail = f"{', '.join(draft.unnamed)}: {quoted(draft.text)}"
            rejections.append(Rejection("description", INCOMPLETE, key, detail))
    return texts, rejections


def _drafts(
    activities: Mapping[str, Activity],
    prompts: Mapping[str, str],
    settings: JudgeSettings,
    title: str,
) -> tuple[dict[str, _Draft], list[Rejection]]:
    """Ask for descriptions, by the activity's key; return them, and the rejections."""
    answers = ask_json("description", prompts, settings, title, schema=SCHEMAS["describe"])
    rejections = list(answers.rejections)
    drafts: dict[str, _Draft] = {}
    for key, reply in answers.values.items():
        if is_text(reply.get("description")):
            text = " ".join(reply["description"].split())
            drafts[key] = _Draft(text, unnamed_objects(activities[key].problem, text))
        else:
            rejections.append(Rejection("description", NO_DESCRIPTION, key, quoted(reply)))
    if settings.options.is_estimate:
        # A description that is not cached is about as long as the definition. Assume that it names
        # no object, so that a second request is counted.
        for key in (key for key in prompts if key not in answers.values):
            problem = activities[key].problem
            drafts[key] = _Draft(str(problem), list(dict.fromkeys(problem.types.values())))
    return drafts, rejections


def without_instruction(text: str) -> str:
    """Return a description without the instruction at its end."""
    return text.partition(_INSTRUCTION_BEGINS)[0].strip()


def _is_complete(bddl: str, text: str) -> bool:
    try:
        return not unnamed_objects(parse_problem(bddl, "example"), text)
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
