"""A synthetic report of two models on two benchmarks, with hostile texts, missing values and wide
tables.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.report.document import (
    Figure,
    Headline,
    Item,
    Published,
    Reference,
    Section,
    ShownAnswer,
)
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.tables import Column, Row, Table, Value

SHORT, LONG = (
    "qwen2-vl-7b",
    "llava-onevision-qwen2-7b-ov-hf_fine-tuned-on-egoplan-it_lora-r64_8-frames",
)
HOSTILE = (
    "</script><script>window.hit=1</script><img src=x onerror='hit=1'> \"q\" "
    "\u2028 \u202e \U0001f9c4 \x00\x1b {{7*7}} \ud800"
)
SHOWN_HOSTILE = HOSTILE.replace("\x00\x1b", "\u2400\u241b").replace("\ud800", "\ufffd")
CHOICES = ("close rice box", "put rice box into cupboard", "open cupboard", "close cupboard")
DIMENSIONS = (
    "Existence", "Attribute", "Affordance", "Location", "Spatial", "Activity", "Compare", "Count",
    "Situated", "Forecasting", "Navigation", "Assistance",
)  # fmt: skip


def draw() -> Any:
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(
        range(8),
        [41, 44, 39, 42, 37, 35, 36, 31],
        color="#7a97ad",
        hatch="//",
        edgecolor="white",
        label=SHORT,
    )
    axes.axhline(25, color="0.3", linestyle=":", label="chance")
    axes.set(xlabel="past actions", ylabel="accuracy (%)")
    axes.legend(fontsize=8)
    return figure


def figure(key: str) -> Figure:
    return Figure(
        key,
        "Accuracy by number of past actions",
        "As Fig. 8 of the paper.",
        draw,
        "Bars that fall.",
    )


def accuracies() -> Table:
    columns = (
        Column("model", "Model"),
        Column("lm", "Language model"),
        Column("accuracy", "Accuracy", 2, True),
        Column("in_domain", "In-domain", 2, True),
        Column("ties", "Ties", None, False),
    )
    published = (
        ("BLIP-2", "Flan-T5-XL", 26.71, 25.9, None),
        ("mPLUG-Owl-2", "LLaMA-2-7B", 27.84, 28.4, None),
        ("GPT-4V", "", 37.98, None, None),
        ("AnyMAL", "LLaMA-2-70B", 24.1, 22.5, None),
    )
    own_rows = ((SHORT, "Qwen2-7B", 37.984, 39.01, 3), (LONG, "Qwen2-7B", 41.52, 43.25, 12))
    rows = (
        *(Row(values) for values in published),
        *(Row(values, is_ours=True) for values in own_rows),
    )
    notes = ("Own rows are over 3,298 of 3,355 questions.",)
    return Table(
        "egoplan_table1",
        "Accuracy on EgoPlan-Val",
        columns,
        rows,
        "EgoPlan-Bench, Table 1, and the runs",
        notes,
    )


def scores() -> Table:
    """Return a table of only own runs that is wider than the page."""
    numbers = (
        "Accuracy %",
        "Low",
        "High",
        "By sum %",
        "By bytes %",
        "EPIC-KITCHENS %",
        "Ego4D %",
        "Unparsed %",
    )
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        *(Column(name.lower(), name, 2) for name in numbers),
        Column("p_value", "p", 4),
        Column("p_holm", "p (Holm)", 4),
    )
    tasks = ("egoplan_val", "egoplan_val_generate", "egoplan_val_narrated")
    ps = ((0.0, 1.0), (2e-7, 0.00004), (0.00006, 0.03125))
    rows = (
        Row((name, task, *(40.0 for _ in numbers), *p), is_ours=True)
        for name in (SHORT, LONG)
        for task, p in zip(tasks, ps, strict=True)
    )
    return Table("egoplan_scores", "All scores of each run", columns, tuple(rows), "the runs")


def dimensions() -> Table:
    columns = (
        Column("model", "Model"),
        *(Column(name.lower(), name, 1, True) for name in DIMENSIONS),
    )
    scores: list[tuple[Value, ...]] = [
        (f"{name} with a long name", *(40 + (7 * i + 13 * n) % 50 for n in range(12)))
        for i, name in enumerate(
            ["BLIP-2-6.7B", "InstructBLIP-7B", "LLaVA-13B-Llama2", "GPT-4V", "PandaGPT-7B"]
        )
    ]
    own_row = Row((LONG, 55.0, None, *(float(30 + 5 * n) for n in range(10))), is_ours=True)
    return Table(
        "egothink_table3",
        "Twelve dimensions",
        columns,
        (*map(Row, scores), own_row),
        "EgoThink, Table 3, and the runs",
    )


def headline(
    run,
    benchmark,
    task,
    value,
    interval,
    questions,
    coverage,
    truncated=None,
    is_generated=True,
    chance=25.0,
    **more,
) -> Headline:
    return Headline(
        run=run,
        benchmark=benchmark,
        task=task,
        metric="acc",
        value=value,
        decimals=2,
        interval=interval,
        questions=questions,
        coverage=coverage,
        truncated=truncated,
        is_generated=is_generated,
        chance=chance,
        no_interval="" if interval else "no samples",
        protocol=f"{task}, version 1.0",
        is_main=task in ("egoplan_val", "egothink"),
        **more,
    )


SECTIONS = (
    Section(
        "egoplan",
        "EgoPlan-Bench",
        "Which action comes next, seen from the first person, out of four.",
        (
            headline(
                SHORT,
                "egoplan",
                "egoplan_val",
                37.98,
                (36.31, 39.66),
                3298,
                3298 / 3355,
                truncated=0.0,
            ),
            headline(LONG, "egoplan", "egoplan_val", 41.52, None, 3355, 1.1, is_generated=False),
            headline(
                SHORT,
                "egoplan",
                "egoplan_val_generate",
                None,
                None,
                0,
                0.0,
                truncated=0.3,
                truncated_of=51,
            ),
            headline(LONG, "egoplan", "egoplan_val_generate", 40.0, (38.3, 41.7), 3355, 1.1),
        ),
        (
            accuracies(),
            scores(),
            Table("egoplan_none", "Comparisons", (Column("one", "First"),), ()),
        ),
        (figure("past-actions"), figure("similarity")),
        ("57 of 3,355 questions have no video; their answers are not counted.", "x" * 400),
        reference=Reference("GPT-4V", 37.9, "Table 1", (37.9, 24.1)),
        published=(
            Published(("egoplan_val",), "GPT-4V", 37.9, "37.90", "EgoPlan-Bench, Table 1"),
            Published(("egoplan_val",), "AnyMAL", 24.1, "24.1", "A ledger", "frames: 8"),
            Published(("another",), "BLIP-2", 26.7, "26.7", "A ledger"),
        ),
    ),
    Section(
        "egothink",
        "EgoThink",
        "Open questions about what one sees, does and could do, judged by a model.",
        (
            headline(
                SHORT,
                "egothink",
                "egothink",
                54.1,
                (50.2, 58.0),
                700,
                0.98,
                truncated=0.012,
                chance=None,
            ),
        ),
        (dimensions(),),
        (figure("capabilities"),),
    ),
)
RUNS = (
    Run(SHORT, Path(), "lmms-eval", "Qwen/Qwen2-VL-7B-Instruct", "2026-11-20 09:41", {}),
    Run(LONG, Path(), "lm-eval", "/checkpoints/ov", "2026-11-21 18:02", {}),
)


def images(count: int) -> list[Image.Image]:
    return [
        Image.new("RGB", (456, 256), (40 + 15 * n % 200, 90, 200 - 12 * n % 190))
        for n in range(count)
    ]


def plan_item(number: int, right: Sequence[bool]) -> Item:
    answer_of = {
        True: ShownAnswer("right", None, (-7.157, -7.016, -6.745, -8.234), 2),
        False: ShownAnswer("wrong", None, (-7.157, -7.016, -9.5, -8.234), 1),
    }
    answers = {
        (name, "egoplan_val"): answer_of[is_right]
        for name, is_right in zip((SHORT, LONG), right, strict=True)
    }
    goals = ("put away the rice", "wash the pan", "fill a pot with water")
    question = f"What action should I take next in order to {goals[number % 3]}?"
    facts = {"source": ("EPIC-Kitchens", "Ego4D")[number % 2], "past actions": str(number % 12)}
    return Item(
        f"egoplan/{number}",
        "egoplan",
        question,
        facts,
        CHOICES,
        2,
        {},
        lambda: images(number % 40),
        answers,
    )


THOUGHT = Item(
    "egothink/existence/1",
    "egothink",
    HOSTILE,
    {"dimension": HOSTILE},
    references={"answer": "Garlic.", "unbroken": "x" * 400},
    images=lambda: [Image.new("RGBA", (1920, 1080), (90, 60, 40, 128))],
    answers={
        (SHORT, "egothink_bench"): ShownAnswer(
            "partly", HOSTILE, rating="0.5 of 1", judgement="Partly.\nOne half."
        ),
        (LONG, "egothink_bench"): ShownAnswer("unscored"),
    },
)
ITEMS = (
    *(plan_item(number, (number % 3 == 0, number % 5 == 0)) for number in range(1, 121)),
    THOUGHT,
)
