"""Backends and their arguments, read from source files, agree with the imported classes."""

import inspect
import subprocess
import sys

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import find_backend

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


def test_arguments_are_those_of_the_classes():
    from lmms_eval.models.simple.openai import OpenAICompatible

    from lmms_egoplan.harnesses.lmms_eval.hf_vlm import Arguments

    backend = find_backend("lmms-eval", "hf_vlm")
    assert backend.parameters >= {*inspect.signature(Arguments).parameters, "pretrained"}
    assert (backend.model_parameter, backend.is_open, backend.ranks) == ("pretrained", False, True)
    other = find_backend("lmms-eval", "openai_compatible")
    names = {
        name
        for name, p in inspect.signature(OpenAICompatible).parameters.items()
        if p.kind != p.VAR_KEYWORD
    }
    assert other.parameters >= names
    assert not other.ranks


@pytest.mark.parametrize("harness", HARNESSES)
def test_unknown_backends_have_suggestions(harness):
    with pytest.raises(LmmsEgoplanError, match=r"hf_vlmm.*hf.vlm"):
        find_backend(harness, "hf_vlmm")
