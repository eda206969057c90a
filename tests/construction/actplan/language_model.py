"""A local language model that describes and changes activities, sees colours in pictures, and fails
by rule.
"""

import json
import re

from construction.actplan.rooms import things_of
from construction.language_model import spoiled
from judge_server import JudgeServer, images_in
from lmms_egoplan.construction.actplan.bddl import literals_of, parse_problem

# Words for a predicate in a text.
_WORDS = {
    "ontop": "on top",
    "onfloor": "on the floor",
    "nextto": "next to",
    "inroom": "in",
    "toggled_on": "toggled on",
}
_CIRCUMSTANCES = (
    "{} is burnt",
    "{} has gone bad",
    "{} is stained",
    "{} is stained",
    "{} is soaked",
)


class LanguageModel(JudgeServer):
    """Server that replies to the prompts of a construction.

    faults: The fault of a reply, by kind of prompt and activity; see `_spoil`.
    """

    def __init__(self, faults=None):
        self.faults = faults or {}
        super().__init__(self._reply)

    @staticmethod
    def prompt_of(body):
        """Return a prompt's text, followed by the objects in its picture."""
        text = JudgeServer.prompt_of(body)
        if isinstance(body["messages"][-1]["content"], str):
            return text
        (image,) = images_in(body)
        return f"{text}\n[{', '.join(things_of(image.convert('RGB')))}]"

    def _reply(self, prompt, before):
        kind = kind_of(prompt)
        activity = activity_of(prompt)
        fault = self.faults.get((kind, activity), "")
        text = json.dumps(_ANSWERS[kind](prompt))
        return _spoil(text, fault, before)


def kind_of(prompt):
    """Return the kind of a prompt, a key of `_ANSWERS`."""
    if "Your description was:" in prompt:
        return "again"
    for kind, words in (
        ("conditions", "Compare each condition with the description"),
        ("seen", "The picture shows"),
        ("circumstances", "List the common procedure"),
        ("change", "Change it so that"),
    ):
        if words in prompt:
            return kind
    return "description"


def activity_of(prompt):
    """Return the activity of a prompt; "" for a prompt with a picture."""
    if match := re.search(r"does this household activity: (.*)\.\n", prompt):
        return match[1].replace(" ", "_")
    names = re.findall(r"\(problem (\S+?)(?:_sample)?_[0-9]\)", prompt)
    return names[-1] if names else ""


def problem_of(prompt):
    """Return the problem that a prompt asks about, which is the last one in it."""
    start = prompt.rindex("(define (problem")
    depth = 0
    for end in range(start, len(prompt)):
        depth += {"(": 1, ")": -1}.get(prompt[end], 0)
        if depth == 0:
            return parse_problem(prompt[start : end + 1], "prompt")
    raise ValueError("no problem")


def text_of(problem):
    """Describe every object and fact, and every condition with its numbers."""
    kinds = {thing.name: _words(thing.type) for thing in problem.objects}
    sentences = [f"There are {', '.join(sorted({*kinds.values()} - {'agent'}))}."]
    for atom, asked, _ in (literal for fact in problem.init for literal in literals_of(fact)):
        first, *targets = map(_words, atom.arguments)
        sentences.append(
            f"The {first} is "
            f"{_state(atom, asked)}{''.join(f' the {target}' for target in targets)}."
        )
    groups = {}
    for atom, asked, bound in (literal for goal in problem.goal for literal in literals_of(goal)):
        names = tuple(kinds.get(name) or _words(bound[name]) for name in atom.arguments)
        things = groups.setdefault(
            (_state(atom, asked), names, bool(bound)), [set() for _ in names]
        )
        for members, name in zip(things, atom.arguments, strict=True):
            members.add(name)
    for (state, names, is_bound), things in groups.items():
        numbers = [len(members) for members in things]
        if is_bound:
            sentences.append(
                f"Each {names[0]} must be {state}{''.join(f' the {name}' for name in names[1:])}."
            )
        elif len({*names}) < len(names):
            sentences.append(f"{len(set.union(*things))} {names[0]}s must be {state} one another.")
        else:
            first, *targets = (
                f"{n} {name}{'s' * (n > 1)}" for n, name in zip(numbers, names, strict=True)
            )
            sentences.append(f"{first} must be {state} {' '.join(targets)}".rstrip() + ".")
    return " ".join(dict.fromkeys(sentences))


def _words(name):
    return name.partition(".")[0].replace("_", " ")


def _state(atom, asked):
    return f"{'' if asked else 'not '}{_WORDS.get(atom.op, atom.op)}"


def _describe(prompt):
    circumstance = re.search("under this circumstance; .*?: (.*)", prompt)
    return {
        "description": text_of(problem_of(prompt))
        + (f" {circumstance[1]}." if circumstance else "")
    }


def _conditions(prompt):
    """Compare words: a condition is contradicted if the text has only the words of its contrary."""
    listed, text = re.search(
        r"### Conditions\n(.*)\n### Description\n(.*?)\n\nCompare", prompt, re.DOTALL
    ).groups()
    reply = {"missing": [], "contradicted": []}
    for number, bddl in re.findall(r"^(\d+)\. at the \w+: (.*)$", listed, re.MULTILINE):
        literals = list(literals_of(formula_of(bddl)))
        if all(_is_stated(text, atom, asked) for atom, asked, _ in literals):
            continue
        is_denied = any(_is_stated(text, atom, not asked) for atom, asked, _ in literals)
        reply["contradicted" if is_denied else "missing"].append(int(number))
    return reply


def _is_stated(text, atom, asked):
    start = "(?<!not )" if asked else "not "
    return re.search(f"{start}{_WORDS.get(atom.op, atom.op)}", text) is not None


def formula_of(bddl):
    """Read a condition."""
    problem = f"(define (problem x_0) (:domain igibson) (:objects) (:init) (:goal {bddl}))"
    return parse_problem(problem, "condition").goal[0]


def _circumstances(prompt):
    thing = re.search(r"There are ([^,.]+)", prompt)[1]
    sentences = [
        {"step": 1, "circumstance": text.format(f"the {thing}")} for text in _CIRCUMSTANCES
    ]
    return {
        "procedure": ["go there", f"take the {thing}", "put it away"],
        "circumstances": sentences,
    }


def _change(prompt):
    problem = problem_of(prompt)
    circumstance = re.search("so that this circumstance holds: (.*)", prompt)[1]
    predicate = next(
        (name for name in ("burnt", "stained", "soaked") if name in circumstance), "perished"
    )
    thing = next(obj.name for obj in problem.objects if not obj.name.startswith("agent"))
    bddl = str(problem).replace("(:init", f"(:init\n        ({predicate} {thing})")
    assert not any(fact.op == "not" and fact.parts[0].op == predicate for fact in problem.init)
    category = "object property" if predicate == "burnt" else "event causality"
    return {"category": category, "problem": bddl}


def _seen(prompt):
    asked = re.search("can be seen clearly in it: (.*)\\?", prompt)[1].split(", ")
    things = re.search(r"\n\[(.*)\]$", prompt)[1].split(", ")
    return [thing for thing in asked if thing in things]


_ANSWERS = {
    "description": _describe,
    "again": _describe,
    "conditions": _conditions,
    "circumstances": _circumstances,
    "change": _change,
    "seen": _seen,
}


def _spoil(text, fault, before):
    texts = {
        "prose": "Sure! There is nothing to say about it.",
        "incomplete": json.dumps({"description": "There is a thing somewhere."}),
        "other form": json.dumps({"answer": [text]}),
    }
    if fault in ("bad bddl", "unchanged"):
        bddl = json.loads(text)["problem"]
        changed = (
            bddl[:-4]
            if fault == "bad bddl"
            else re.sub(r"\(:init\n.*\n", "(:init\n", bddl, count=1)
        )
        texts[fault] = json.dumps(json.loads(text) | {"problem": changed})
    return spoiled(texts.get(fault, text), "" if fault in texts else fault, before)
