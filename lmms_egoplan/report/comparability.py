"""Name what makes two runs of a task incomparable.

This may be other questions, prompts, data, decoding, judges or versions.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.jsonl import member
from lmms_egoplan.report.scores import Answer, Key, ScoredTask
from lmms_egoplan.text import counted, join_list

NOT_COMPARABLE = "not comparable"
"""Verdict on runs that are not comparable."""

_MOST_NAMES = 3
_DIGEST_SHOWN = 12
# lm-eval's names of generation arguments, and lmms-eval's.
_OTHER_NAMES = {"max_gen_toks": "max_new_tokens"}
_NEW_TOKENS = "max_new_tokens"
# Without effect, like an argument that is absent.
_DEFAULTS = {"num_beams": 1, "until": []}
_GREEDY = {"do_sample": False, "temperature": 0}
_OF_SAMPLING = ("top_p", "top_k", "min_p", "typical_p")
_LABEL = re.compile(r"^\W*[A-Z]\W+(?=\S)")
# The harnesses' placeholders of images and videos, and those of the models' chat templates.
_MARK = re.compile(
    r"</?\|?(?:(?:start|begin|end)_of_|fake_token_around_|global-)?(?:image|img|video|vision)"
    r"(?:_(?:pad|start|end|bos|eos|patch|context|soft_token|\d+)| \d+)?\|?>|<row_\d+_col_\d+>",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Unequal:
    """Something that must be equal in two runs to compare their scores, and is not.

    name: plural noun or ``decoding``, for ``different NAME``.
    text: what differs, with the values of both runs or with the questions.
    """

    name: str
    text: str


def unequal(first: ScoredTask, second: ScoredTask) -> list[Unequal]:
    """Return what makes the scores of two runs incomparable; empty if they are comparable.

    Model, weights, precision, device, batch size, backend and versions of packages may differ: a
    comparison is about them. For different models, so may what belongs to a model: its chat
    template, its own limits on pixels, and the prompts that the benchmark's protocol has for its
    family.

    Values that one of the runs does not know are not compared.
    """
    return [
        *_versions(first, second),
        *_conditions(first, second),
        *_settings(first, second),
        *(
            _parts_of_one_model(first, second)
            if first.run.base_model == second.run.base_model
            else ()
        ),
        *_data(first, second),
        *_decoding(first, second),
        *_questions(first, second),
        *_prompts(first, second),
    ]


def common_answers(first: ScoredTask, second: ScoredTask) -> list[tuple[Answer, Answer]]:
    """Return both runs' answers to each question that both have."""
    second_answers = second.answers or {}
    return [
        (answer, second_answers[key])
        for key, answer in (first.answers or {}).items()
        if key in second_answers
    ]


def named(names: list[str]) -> str:
    """Count questions and name the first ones."""
    return f"{counted(len(names), 'questions')} ({join_list(names, _MOST_NAMES)})"


def unknown_prompts(first: ScoredTask, second: ScoredTask) -> str:
    """Return what of the prompts was not compared; "" for nothing.

    Some are logged only after a chat template.

    After different templates, nothing is compared. In runs of two harnesses, one prompt must
    contain the other, and the text around it may be the template's or part of the question.
    """
    is_part = first.source.harness != second.source.harness
    if not is_part and not _has_other_template(first, second):
        return ""
    pairs = common_answers(first, second)
    if all(one.asked and other.asked for one, other in pairs if one.prompt and other.prompt):
        return ""
    if is_part:
        return (
            "prompts were compared only in part, because one run logs them after its chat template"
        )
    return "prompts were not compared, because they are logged after different chat templates"


def _versions(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    if first.task != second.task:  # a condition of its own
        return
    others = {task_run.task: (task_run.task, task_run.version) for task_run in second.task_runs}
    of_tasks = [
        ((run.task, run.version), others[run.task]) for run in first.task_runs if run.task in others
    ]
    of_answers = [(one.task, other.task) for one, other in common_answers(first, second)]
    for versions in dict.fromkeys(of_answers or of_tasks):
        if versions[0] == versions[1]:
            continue
        texts = (" ".join(map(str, version or ())) for version in versions)
        yield Unequal("versions", "versions {} and {}".format(*texts))


def has_same_protocol(first: ScoredTask, second: ScoredTask) -> bool:
    """Return true if two runs have the same task with the same version, conditions and settings."""
    if first.task != second.task:
        return False
    return not [
        *_versions(first, second),
        *_conditions(first, second),
        *_settings(first, second),
    ]


def _conditions(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    """Compare the conditions.

    A score without a judge is compared with any: no answer had to be judged.
    """
    conditions = second.conditions
    for name, value in first.conditions.items():
        is_unjudged = name == "judges" and None in (value, conditions.get(name))
        if not is_unjudged and value != conditions.get(name):
            yield Unequal(name, f"{name} {value or 'none'} and {conditions.get(name) or 'none'}")


def _settings(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    settings = second.settings
    for name, value in first.settings.items():
        if value != settings.get(name, value):
            yield Unequal(name, f"{name} {value} and {settings[name]}")


def _parts_of_one_model(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    for kind in ("image", "video"):
        limits = [member(task.source.record, "pixels", kind) for task in (first, second)]
        if None not in limits and limits[0] != limits[1]:
            name = f"pixel limits of {kind}s"
            yield Unequal(name, "{} {} and {}".format(name, *map(_limits_text, limits)))
    templates = [
        member(task.source.record, "processor", "chat_template_sha256") for task in (first, second)
    ]
    if None not in templates and templates[0] != templates[1]:
        yield Unequal(
            "chat templates", "chat templates {} and {}".format(*map(_shortened, templates))
        )
    families = [task.prompt_family for task in (first, second)]
    if None not in families and families[0] != families[1]:
        yield Unequal("prompts", "prompts {} and {}".format(*families))


def _data(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    fingerprints = first.fingerprints, second.fingerprints
    tasks = [
        name for name, data in fingerprints[0].items() if data != fingerprints[1].get(name, data)
    ]
    if tasks:
        both = [_shortened(of_run[tasks[0]]) for of_run in fingerprints]
        where = f" of {join_list(tasks, _MOST_NAMES)}" if len(fingerprints[0]) > 1 else ""
        yield Unequal(
            "prepared data", "prepared data{} (fingerprints {} and {})".format(where, *both)
        )


def _decoding(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    """Compare the decoding of the tasks that both runs have.

    A limit on new tokens that is a condition is excepted.
    """
    is_apart = "new tokens" in first.conditions
    others = {task_run.task: generation_arguments(task_run.config) for task_run in second.task_runs}
    tasks: dict[str, list[str]] = {}
    for task_run in first.task_runs:
        arguments = generation_arguments(task_run.config)
        other = others.get(task_run.task)
        if arguments is None or other is None:
            continue
        for name in {**arguments, **other}:
            values = arguments.get(name, "none"), other.get(name, "none")
            if values[0] != values[1] and not (is_apart and name == _NEW_TOKENS):
                tasks.setdefault("decoding: {} {} and {}".format(name, *values), []).append(
                    task_run.task
                )
    for text, of_text in tasks.items():
        where = f" ({join_list(of_text, _MOST_NAMES)})" if len(first.task_runs) > 1 else ""
        yield Unequal("decoding", text + where)


def generation_arguments(config: Mapping[str, Any]) -> dict[str, str] | None:
    """Return a task's generation arguments as texts, by lmms-eval's names.

    None if they are unknown or if nothing is written.

    Without sampling and with a temperature of 0, or without these arguments, the decoding is
    greedy. It has the same texts however it is written, and no arguments of sampling.
    """
    arguments = config.get("generation_kwargs")
    if (
        not isinstance(arguments, Mapping)
        or config.get("output_type", "generate_until") != "generate_until"
    ):
        return None
    by_name = {_OTHER_NAMES.get(str(name), str(name)): value for name, value in arguments.items()}
    by_name = {name: value for name, value in by_name.items() if value is not None}
    if not by_name.get("do_sample") and not by_name.get("temperature"):
        by_name = {
            name: value for name, value in by_name.items() if name not in _OF_SAMPLING
        } | _GREEDY
    return {
        name: f"{value:g}"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else str(value)
        for name, value in by_name.items()
        if _DEFAULTS.get(name, ...) != value
    }


def _questions(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    """Compare the questions with equal ids, and their candidates or the options in their prompts.

    Only lm-eval logs candidates.
    """
    pairs = common_answers(first, second)
    names: dict[str, list[str]] = {"questions": [], "candidates": [], "orders of options": []}
    by_id = [_by_id(task) for task in (first, second)]
    for name, answers in by_id[0].items():
        others = by_id[1].get(name, {})
        if others and answers.keys().isdisjoint(others):
            one = next(iter(answers.values()))
            other = next(iter(others.values()))
            names["orders of options" if _is_reordered(one, other) else "questions"].append(name)
    for one, other in pairs:
        choices, others = (member(answer.doc, "choices") for answer in (one, other))
        if _is_reordered(one, other):
            names["orders of options"].append(one.id)
        elif choices is not None and others is not None and choices != others:
            names["candidates"].append(one.id)
    if names["questions"]:
        yield Unequal(
            "questions", f"text, video or right answer differ for {named(names['questions'])}"
        )
    if names["candidates"]:
        yield Unequal("candidates", f"candidates differ for {named(names['candidates'])}")
    if names["orders of options"]:
        yield Unequal(
            "orders of options",
            f"the order of options differs for {named(names['orders of options'])}",
        )


def _by_id(task: ScoredTask) -> dict[str, dict[Key, Answer]]:
    answers: dict[str, dict[Key, Answer]] = {}
    for key, answer in (task.answers or {}).items():
        answers.setdefault(answer.id, {})[key] = answer
    return answers


def _is_reordered(one: Answer, other: Answer) -> bool:
    """Return true if two questions differ only in the order of their options.

    Their candidates or their prompts show it.
    """
    choices, others = (member(answer.doc, "choices") for answer in (one, other))
    if choices is not None and others is not None:
        return choices != others and sorted(choices) == sorted(others)
    prompts = [answer.asked or answer.prompt or "" for answer in (one, other)]
    return _bare(prompts[0]) != _bare(prompts[1]) and _lines(prompts[0]) == _lines(prompts[1])


def _prompts(first: ScoredTask, second: ScoredTask) -> Iterator[Unequal]:
    families = first.prompt_family, second.prompt_family
    if None not in families and families[0] != families[1]:
        # the protocol's prompts for different models; those of one model are compared by their
        # names
        return
    is_same = _same_prompts(first, second)
    pairs = common_answers(first, second)
    changed = [
        one.id for one, other in pairs if not is_same(one, other) and not _is_reordered(one, other)
    ]
    if changed:
        yield Unequal("prompts", f"prompts differ for {named(changed)}")


def _same_prompts(first: ScoredTask, second: ScoredTask) -> Callable[[Answer, Answer], bool]:
    """Return a function that compares the prompts of two answers.

    A prompt that is not known equals any other.

    Blanks and marks of images and videos, such as ``<image>``, do not count. lm-eval logs prompts
    after the chat template. Without the text before it, prompts are comparable only after the same
    template. For runs of different harnesses, one must contain the other.
    """
    is_contained = first.source.harness != second.source.harness
    is_unknown = not is_contained and _has_other_template(first, second)

    def is_same(one: Answer, other: Answer) -> bool:
        if one.asked is not None and other.asked is not None:
            return one.asked == other.asked or _bare(one.asked) == _bare(other.asked)
        if one.prompt is None or other.prompt is None or is_unknown:
            return True
        short, long = sorted((_bare(one.prompt), _bare(other.prompt)), key=len)
        return short == long or (is_contained and short in long)

    return is_same


def _has_other_template(first: ScoredTask, second: ScoredTask) -> bool:
    templates = [task.source.provenance.get("chat template") for task in (first, second)]
    return templates[0] != templates[1]


def _bare(prompt: str) -> str:
    """Return a prompt without marks of media and without blanks."""
    return re.sub(r"\s", "", _MARK.sub("", prompt))


def _lines(prompt: str) -> list[str]:
    """Return a prompt's lines in alphabetical order.

    Marks of media and the letters before options are removed.
    """
    lines = (_LABEL.sub("", line).strip() for line in _MARK.sub("", prompt).splitlines())
    return sorted(filter(None, lines))


def _limits_text(limits: Any) -> str:
    return (
        ", ".join(f"{name} {value:,}" for name, value in limits.items())
        if isinstance(limits, dict)
        else str(limits)
    )


def _shortened(digest: str) -> str:
    return digest[:_DIGEST_SHOWN]
