"""The small sets of `prepared_sets`, without a judge, and tiny models of the ranking class."""

import os

import pytest

from harnesses.lm_eval.asking import ARGUMENTS, FAMILIES
from harnesses.lm_eval.prepared_sets import prepare_all
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from runs.harness import _JUDGE
from zoo import save


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Return the folder with all sets. Tests only read it."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_all(folder)
    return folder


@pytest.fixture(scope="module")
def data(prepared):
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(_JUDGE):
                patch.delenv(name)
        patch.setenv("LMMS_EGOPLAN_DATA", str(prepared))
        yield prepared


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Return the folders of tiny checkpoints."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: str(save(name, folder / name)) for name in FAMILIES}


@pytest.fixture(scope="module")
def chat(checkpoint):
    """Return models for chat prompts."""
    return {name: HFVLMRanker(checkpoint[name], **ARGUMENTS) for name in FAMILIES}


@pytest.fixture(scope="module")
def plain(checkpoint):
    """Return models for prompts without a chat template."""
    return {name: HFVLMRanker(checkpoint[name], **ARGUMENTS) for name in FAMILIES}
