import pytest

from benchmarks.egointent.source import raw_record
from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, FIELDS, PROMPT, prompt_text


def test_prompt_contains_only_the_step_id_of_the_record():
    other = {name: "XYZZY" for name in raw_record() if name != "step_id"}
    assert (
        prompt_text(raw_record())
        == prompt_text(raw_record(**other))
        == PROMPT.replace("{step_id}", "s1")
    )
    assert "XYZZY" not in prompt_text(raw_record(**other))


@pytest.mark.parametrize("step_id", ["7", "{step_id}", "{local_intent}", "%s", "\\1"])
def test_step_ids_are_shown_unchanged(step_id):
    before, after = PROMPT.split("{step_id}")
    assert prompt_text({"step_id": step_id}) == f"{before}{step_id}{after}"


def test_asks_for_the_fields_by_their_names():
    template = PROMPT.splitlines()[-1]
    assert [field for field in FIELDS if f'"{field}": "..."' in template] == list(FIELDS)
    assert all(f"\n{field}: " in PROMPT for field in FIELDS)
    assert not any(alias in PROMPT.replace("next_step_plan", "") for alias in ALIASES)
