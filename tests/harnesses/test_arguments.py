"""Arguments of this package's backends: their declarations are those of the classes, and every
wrong value is refused before weights load.
"""

import inspect
from dataclasses import fields

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.arguments import argument_problems, passed_on, read_arguments
from lmms_egoplan.harnesses.lm_eval.arguments import HFVLMRankerArguments, VLLMVLMRankerArguments
from lmms_egoplan.harnesses.lmms_eval.arguments import (
    HFVLMArguments,
    ScriptedArguments,
    VLLMRankerArguments,
)

KINDS = (
    HFVLMArguments,
    ScriptedArguments,
    VLLMRankerArguments,
    HFVLMRankerArguments,
    VLLMVLMRankerArguments,
)
WRONG = {
    "chat_template": {"no": "none"},
    "dtype": {"bf16": "bfloat16"},
    "in_flight": {"0": "at least 1", "many": "at least 1"},
    "max_frames_num": {"abc": "at least 1", "0": "at least 1", "2.5": "at least 1"},
    "max_pixels": {"768*28*28": "whole number of pixels", "0": "above 0"},
    "method": {"fast": "auto, forced, prompt_logprobs"},
    "peft": {"tunned": "adapter_config.json"},
    "ranking_path": {"fast": "auto, packed, cached, shared, full"},
    "score_eos": {"yes": "True or False"},
    "server_wait": {"soon": "seconds", "-1": "seconds", "nan": "seconds"},
    "trust_remote_code": {"yes": "True or False"},
    "video_min_pixels": {"1e5": "whole number of pixels"},
    "workers": {"0": "at least 1", "-1": "at least 1", "True": "at least 1"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_values_are_named_with_what_is_allowed(kind):
    names = {declared.name for declared in fields(kind)}
    wrong = {name: values for name, values in WRONG.items() if name in names}
    for name, values in wrong.items():
        for value, expected in values.items():
            (line,) = argument_problems(kind, {name: value})
            assert line.startswith(f"{name}={value}: must be ")
            assert expected in line
            with pytest.raises(LmmsEgoplanError, match=rf"^backend: --model_args {name}="):
                read_arguments(kind, "backend", {name: value})


def test_texts_and_what_a_harness_makes_of_them_are_read_alike():
    """Both harnesses turn texts into numbers and Booleans; `run` has the texts."""
    texts = {"workers": "3", "score_eos": "true", "max_pixels": "602112", "revision": "12"}
    values = {"workers": 3, "score_eos": True, "max_pixels": 602112, "revision": 12}
    chosen = read_arguments(HFVLMArguments, "hf_vlm", texts)
    assert chosen == read_arguments(HFVLMArguments, "hf_vlm", values)
    assert (chosen.workers, chosen.score_eos, chosen.revision) == (3, True, "12")
    served = read_arguments(VLLMRankerArguments, "vllm_ranker", {"server_wait": "20"})
    assert served.server_wait == 20.0


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_the_default(kind):
    names = [declared.name for declared in fields(kind)]
    assert read_arguments(kind, "backend", dict.fromkeys(names)) == kind()


def test_only_names_that_resemble_an_argument_are_refused_if_the_parent_takes_others():
    assert [*argument_problems(VLLMRankerArguments, {"max_model_len": "8192"})] == []
    (line,) = argument_problems(VLLMRankerArguments, {"in_fligth": "4"})
    assert line == "has no argument in_fligth; did you mean in_flight?"
    (line,) = argument_problems(HFVLMArguments, {"max_model_len": "8192"})
    assert line.startswith("has no argument max_model_len; use one of attn_implementation, ")


def test_arguments_of_the_parent_are_passed_on_unchanged():
    given = {"workers": "2", "in_flight": 4, "max_model_len": 8192, "revision": "v1", "device": "c"}
    assert passed_on(VLLMRankerArguments, given) == {
        "max_model_len": 8192,
        "revision": "v1",
        "device": "c",
    }


@pytest.mark.parametrize(
    ("kind", "possible"),
    [(VLLMRankerArguments, "score_eos"), (VLLMVLMRankerArguments, "interleave")],
)
def test_a_server_sets_the_arguments_of_its_engine(kind, possible):
    given = {"base_url": "http://127.0.0.1:8000", "workers": 2, possible: True, "device": "cpu"}
    assert [*argument_problems(kind, given)] == []
    (line,) = argument_problems(kind, given | {"min_pixels": 3136, "gpu_memory_utilization": 0.9})
    assert line.startswith("gpu_memory_utilization, min_pixels: ")
    assert "server" in line


def test_arguments_without_effect_say_what_to_do():
    (line,) = argument_problems(VLLMRankerArguments, {"max_frame_num": 4})
    assert line == "max_frame_num has no effect here: set max_frames_num"


def test_declarations_fit_the_parents():
    """The parent must take what is passed on, and what a server's backend sets for prompts."""
    from lm_eval.models.hf_vlms import HFMultimodalLM
    from lm_eval.models.huggingface import HFLM
    from lmms_eval.models.simple.vllm import VLLM

    from lmms_egoplan.harnesses.lm_eval.arguments import PROMPT_SETTINGS

    parents = {*inspect.signature(HFMultimodalLM).parameters, *inspect.signature(HFLM).parameters}
    assert [*argument_problems(HFVLMRankerArguments, dict.fromkeys(parents))] == []
    of_vllm = {*inspect.signature(VLLM).parameters} - VLLMRankerArguments.WITHOUT_EFFECT.keys()
    of_vllm |= {
        "worker_cls",
        "max_model_len",
        "max_num_seqs",
        "code_revision",
        "limit_mm_per_prompt",
    }
    for kind in (VLLMRankerArguments, VLLMVLMRankerArguments):
        assert [*argument_problems(kind, dict.fromkeys(of_vllm))] == []
    assert parents >= HFVLMRankerArguments.PASSED_ON
    assert parents >= {*PROMPT_SETTINGS}
