import pytest

from benchmarks.egointent.source import raw_record
from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, FIELDS, V1_PROMPT, v1_prompt_text


def test_prompt_contains_only_the_step_id_of_the_record():
    other = {name: "XYZZY" for name in raw_record() if name != "step_id"}
    assert (
        v1_prompt_text(raw_record())
        == v1_prompt_text(raw_record(**other))
        == V1_PROMPT.replace("{step_id}", "s1")
    )
    assert "XYZZY" not in v1_prompt_text(raw_record(**other))


@pytest.mark.parametrize("step_id", ["7", "{step_id}", "{local_intent}", "%s", "\\1"])
def test_step_ids_are_shown_unchanged(step_id):
    before, after = V1_PROMPT.split("{step_id}")
    assert v1_prompt_text({"step_id": step_id}) == f"{before}{step_id}{after}"


def test_asks_for_the_fields_by_their_names():
    template = V1_PROMPT.splitlines()[-1]
    assert [field for field in FIELDS if f'"{field}": "..."' in template] == list(FIELDS)
    assert all(f"\n{field}: " in V1_PROMPT for field in FIELDS)
    assert not any(alias in V1_PROMPT.replace("next_step_plan", "") for alias in ALIASES)
