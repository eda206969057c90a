"""Texts that are sent to a model, language model or judge do not change by a single byte.

If a prompt changes on purpose, bump the version of its tasks or of its data, then update its digest
here.
"""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

import lmms_egoplan
from lmms_egoplan.benchmarks.egoplan import prompts as egoplan
from lmms_egoplan.benchmarks.egothink.prompts import FAMILIES

PACKAGE = Path(lmms_egoplan.__file__).parent
FILES = {
    "report/actplan/error_judge.yaml": "42924effef50fc9a",
    "benchmarks/egointent/diagnostics.yaml": "dcc9f69f12169cab",
    "benchmarks/egointent/judge_protocol.yaml": "33656327768cff12",
    "benchmarks/egointent/prompts.yaml": "72caa552144d2ee9",
    "report/egoplan/failures.yaml": "9d314521347bbf65",
    "benchmarks/egoplan/presets.yaml": "02989e97d7486986",
    "benchmarks/egoplan/prompts.yaml": "27a73c02f6080961",
    "benchmarks/egothink/judge_protocol.yaml": "41c7326cb2df8415",
    "benchmarks/egothink/prompts.yaml": "31b3c5f1a5042453",
    "construction/actplan/prompts.yaml": "74783ce4eabb556b",
    "construction/egointent/prompts.yaml": "bf59d4b32eafb99c",
    "construction/egoplan/goals.yaml": "cbb8739e809e34a8",
    "construction/egoplan/phrases.yaml": "2c91d3530953756a",
    "planner/kitchen.yaml": "6619790b41d59cf3",
}
DOC = {
    "question": "What next?",
    "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    "task_goal": "make tea",
    "past_actions": [{"narration_text": "take a cup"}],
}
TEXTS = {
    "egoplan": [
        egoplan.lettered_question(DOC),
        egoplan.lettered_question(DOC, egoplan.THINKING),
        egoplan.lettered_question(DOC, egoplan.REASONED),
        egoplan.bench2_prompt(DOC),
        egoplan.bench2_prompt(DOC, egoplan.BENCH2_THINKING),
        egoplan.narrated_question(DOC),
        egoplan.narrated_question(DOC | {"past_actions": []}),
    ],
    "egothink": [repr(family) for family in FAMILIES[:-1]],
}
DIGESTS = {"egoplan": "e1545ab81169a917", "egothink": "30ecf503193f3df2"}


def digest(content):
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", FILES)
def test_prompt_files_keep_their_texts(name):
    room = PACKAGE / Path(name).parts[0]
    if not room.exists():
        pytest.skip(f"{room} is removed")
    assert digest(yaml.safe_load((PACKAGE / name).read_text(encoding="utf-8"))) == FILES[name]


@pytest.mark.parametrize("benchmark", TEXTS)
def test_prompts_in_code_keep_their_texts(benchmark):
    assert digest(TEXTS[benchmark]) == DIGESTS[benchmark]
