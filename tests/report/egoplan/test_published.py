"""Check EgoPlan-Bench's tables as printed, including their known oddities."""

from report.printed_tables import printed


def test_table_3_repeats_table_1():
    table1 = printed("egoplan_table1").set_index("model")["acc"]
    table3 = printed("egoplan_table3").set_index("model")["all"]
    assert [table1[name] for name in ("GPT-4V", "Video-LLaMA")] == [
        table3[name] for name in ("GPT-4V", "Video-LLaMA")
    ]


def test_table_4_omits_two_models():
    table1, table4 = (printed(f"egoplan_table{number}") for number in (1, 4))
    other_models = table1[~table1["model"].isin(["Kosmos-2", "SEED-LLaMA"])]
    assert [name.lower() for name in other_models["model"]] == [
        name.lower() for name in table4["model"]
    ]
    assert list(other_models["llm"]) == list(table4["llm"])
