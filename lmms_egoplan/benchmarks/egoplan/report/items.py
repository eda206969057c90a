"""The questions of the gallery."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import Answered, Key, find_docs
from lmms_egoplan.benchmarks.egoplan.report.groups import BIN_NAMES, bin_of
from lmms_egoplan.benchmarks.egoplan.report.series import read_series
from lmms_egoplan.benchmarks.egoplan.visuals import uniform_images
from lmms_egoplan.report.document import Item, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run

_DOMAIN_NAMES = {EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)", EGO4D: "Ego4D (out-of-domain)"}


def items(runs: Sequence[Run]) -> list[Item]:
    """The questions with what the runs with samples answered, in the order of their ids.

    Raises:
        LmmsEgoplanError: as for `section`.
    """
    series = read_series(runs)
    docs, _ = find_docs(each.answers or {} for each in series)
    tasks = {run.name: sum(each.run is run and each.answers is not None for each in series) for run in runs}
    said: dict[Key, dict[str, Answered]] = {}
    for each in series:
        name = each.run.name if tasks[each.run.name] == 1 else f"{each.run.name} ({each.task_run.task})"
        for key, answered in (each.answers or {}).items():
            said.setdefault(key, {})[name] = answered
    found, uses = [], {}
    for key in sorted(said):
        _, sample_id, letter = key
        uses[sample_id] = uses.get(sample_id, 0) + 1
        doc, answers = docs.get(key), said[key]
        domain = doc["video_source"] if doc else next((each.domain for each in answers.values() if each.domain), None)
        facts = {"source": _DOMAIN_NAMES[domain]} if domain in _DOMAIN_NAMES else {}
        found.append(
            Item(
                key=f"egoplan/{sample_id}" + (f" ({uses[sample_id]})" if uses[sample_id] > 1 else ""),
                benchmark="egoplan",
                question=doc["question"] if doc else f"{sample_id}: the question is not at hand",
                facts=facts | ({"past actions": BIN_NAMES[bin_of(doc)]} if doc else {}),
                choices=tuple(doc["choices"] if doc else LETTERS),
                gold=LETTERS.index(letter),
                references=_references(doc) if doc else {},
                images=partial(uniform_images, doc) if doc and _is_there(doc["media_path"]) else None,
                answers={name: _shown(answered) for name, answered in answers.items()},
            )
        )
    return found


def _is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path's own raises where a folder on the way is closed


def _references(doc: Mapping[str, Any]) -> dict[str, str]:
    done = "; ".join(action["narration_text"] for action in doc["past_actions"])
    return {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"}


def _shown(answered: Answered) -> ShownAnswer:
    verdicts: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}
    unread = "no clear letter in the reply" if answered.text is not None and answered.chosen is None else None
    return ShownAnswer(verdicts[answered.score], answered.text, answered.logprobs, answered.chosen, rating=unread)
