"""Each level changes one field, and equal fields are asked once."""

from dataclasses import asdict

import pytest

from lmms_egoplan.benchmarks.egoplan.presets import load_presets
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.sensitivity.conditions import FACTORS, PRESET, conditions

KEYS = {"option order": "shift", "scoring": "ranked"}


@pytest.mark.parametrize("benchmark", ["egoplan", "egoplan_bench2"])
def test_a_level_changes_only_its_factor(benchmark):
    presets = load_presets(benchmark)
    base, *varied = conditions(benchmark, "", (), ranks=True)
    assert presets[base.level].parser == base.parser
    assert {condition.factor for condition in varied} == {*FACTORS}
    alone = {x.level for x in varied if x.factor == "prompt"} - {*presets}
    assert alone == ({"physbrain"} if benchmark == "egoplan" else set())
    for condition in varied:
        if condition.factor == PRESET:
            continue
        before, after = asdict(base.asked), asdict(condition.asked)
        changed = {name for name in before if before[name] != after[name]}
        expected = (
            set()
            if condition.factor == "parser"
            else {KEYS.get(condition.factor, condition.factor)}
        )
        assert changed == expected, condition
        assert (condition.parser != base.parser) == (condition.factor in ("parser", "scoring"))
        if condition.level in presets:
            assert condition.factor not in presets[condition.level].unknown


@pytest.mark.parametrize("benchmark", ["egoplan", "egoplan_bench2"])
def test_all_presets_are_asked_as_a_whole_and_equal_fields_share_replies(benchmark):
    presets = load_presets(benchmark)
    whole = {
        c.level: c.asked
        for c in conditions(benchmark, "", [PRESET], ranks=True)
        if c.factor == PRESET
    }
    assert whole.keys() == presets.keys()
    for field in ("prompt", "media", "decoding"):
        for name, asked in whole.items():
            assert getattr(presets[name], field) == getattr(presets[getattr(asked, field)], field)
            for other, asked_other in whole.items():
                is_equal = getattr(presets[name], field) == getattr(presets[other], field)
                assert is_equal == (getattr(asked, field) == getattr(asked_other, field))


def test_rankings_have_no_prompt_and_backends_that_write_have_no_rankings():
    base, *varied = conditions("egoplan", "official", (), ranks=True)
    assert base.asked.ranked
    assert {condition.factor for condition in varied} == {"media", "observation", "scoring", PRESET}
    with pytest.raises(LmmsEgoplanError, match="--vary prompt: official"):
        conditions("egoplan", "official", ["prompt"], ranks=True)
    with pytest.raises(LmmsEgoplanError, match=r"--base official: .*hf_vlm"):
        conditions("egoplan", "official", (), ranks=False)
    written = conditions("egoplan", "", (), ranks=False)
    assert not any(condition.asked.ranked for condition in written)
    assert "official" not in {
        condition.level for condition in written if condition.factor == PRESET
    }
