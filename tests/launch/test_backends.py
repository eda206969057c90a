"""Backends are found by name without importing a harness."""

import subprocess
import sys

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import _MODEL_PARAMETERS, _OURS, find_backend
from lmms_egoplan.harnesses.lm_eval.command_line import RANKERS
from lmms_egoplan.harnesses.lmms_eval.arguments import HFVLMArguments

HARNESSES = ("lmms-eval", "lm-eval")
PROGRAM = """
import sys
from lmms_egoplan.harnesses.backends import find_backend
for name in ("hf_vlm", "vllm_ranker", "async_openai"):
    find_backend("lmms-eval", name)
find_backend("lm-eval", "hf-vlm-ranker")
sys.exit(bool({"torch", "transformers", "lmms_eval", "lm_eval"} & set(sys.modules)))
"""


def test_no_harness_is_imported():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_arguments_of_other_projects_are_unknown():
    backend = find_backend("lmms-eval", "hf_vlm")
    assert (backend.arguments, backend.ranks, backend.is_local) == (HFVLMArguments, True, True)
    assert backend.model_parameter == "pretrained"
    other = find_backend("lmms-eval", "openai_compatible")
    assert (other.arguments, other.ranks, other.is_local) == (None, False, False)
    assert other.model_parameter == "model"
    assert find_backend("lmms-eval", "llava_vid").ranks is None
    assert find_backend("lm-eval", "hf").ranks is None


def test_every_model_class_for_lm_eval_is_a_backend():
    assert {backend.name for backend in _OURS["lm-eval"]} == RANKERS.keys()


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_harness_knows_every_backend_with_another_argument_for_the_model(harness):
    for parameter, names in _MODEL_PARAMETERS[harness].items():
        for name in names:
            assert find_backend(harness, name).model_parameter == parameter


@pytest.mark.parametrize("harness", HARNESSES)
def test_unknown_backends_have_suggestions(harness):
    with pytest.raises(LmmsEgoplanError, match=r"hf_vlmm.*hf.vlm"):
        find_backend(harness, "hf_vlmm")
