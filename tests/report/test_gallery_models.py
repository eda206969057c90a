"""Models, tasks and saved filters of the gallery, and the forms of answers, in a browser."""

from itertools import product

import pytest

from axe import flaws, skip_without_axe
from lmms_egoplan.report.document import (
    Alignment,
    Item,
    PeoplesRating,
    Section,
    ShownAnswer,
    ShownPart,
)
from lmms_egoplan.report.page import gallery_link, write_page
from lmms_egoplan.report.run import Run
from report.conftest import watched_tab
from report.test_gallery import count
from report.test_gallery_addresses import query

pytestmark = pytest.mark.nightly
MODELS = ("Alpha-7B", "Beta-7B", "Gamma-7B")
MAIN, WRITTEN = "plan_val", "plan_val_generate"
SECTIONS = [
    Section(key, title, "")
    for key, title in (("plan", "Plan"), ("steps", "Steps"), ("parts", "Parts"), ("look", "Look"))
]
COUNT = 30


def verdict(model: str, task: str, number: int) -> str:
    """Return a verdict; question 7 has no answer by the first model."""
    divisor = 2 + MODELS.index(model) + 2 * (task == WRITTEN)
    return "wrong" if number % divisor else "right"


def plan_item(number: int) -> Item:
    answers = {}
    for model, task in product(MODELS, (MAIN, WRITTEN)):
        if number == 7 and model == MODELS[0]:
            continue
        if number == 8 and task == MAIN:
            continue
        is_ranked = task == MAIN
        chosen = 2 if verdict(model, task, number) == "right" else 0
        answers[model, task] = ShownAnswer(
            verdict(model, task, number),
            None if is_ranked else f"{'ABCD'[chosen]}.",
            (-1.0, -2.0, -3.0, None) if is_ranked else None,
            chosen,
        )
    return Item(
        f"plan/{number}",
        "plan",
        f"What next in {number}?",
        {"source": "Ego4D" if number % 2 else "EPIC-KITCHENS"},
        ("open", "close", "wash", "cut"),
        2,
        answers=answers,
        tasks=(MAIN, WRITTEN),
    )


GOLDS = {"Gold plan 1": ("grab(cup)", "", "wash(cup)"), "Gold plan 2": ("wash(cup)",)}
STEPS = ("walk_to(sink)", "grab(cup)", "wash(the cup)")
PLAN = Item(
    "steps/1",
    "steps",
    "Wash the cup.",
    {},
    references={name: "\n".join(steps) for name, steps in GOLDS.items()},
    golds=GOLDS,
    answers={
        (MODELS[0], "steps"): ShownAnswer(
            "partly",
            "\n".join(STEPS),
            steps=STEPS,
            alignments=(
                Alignment("Gold plan 1", 2, 3, 2 / 3, ((1, 0), (2, 2))),
                Alignment("Gold plan 2", 1, 3, 1 / 3, ((2, 0),)),
            ),
            people=PeoplesRating("correct", is_disputed=True),
        ),
        (MODELS[1], "steps"): ShownAnswer(
            "partly",
            STEPS[1],
            steps=STEPS[1:2],
            alignments=(Alignment("Gold plan 1", 1, 3, 1 / 3, None),),
        ),
    },
)
PARTS = Item(
    "parts/1",
    "parts",
    "What is done, and why?",
    {},
    references={"What": "wash a cup", "Why": "to drink"},
    answers={
        (MODELS[0], "parts"): ShownAnswer(
            "partly",
            "What: wash [100]\nWhy: missing [0]",
            rating="50.0 of 100",
            parts=(
                ShownPart("What", "wash", "100 of 100", "Both wash."),
                ShownPart("Why", None, "0 of 100"),
            ),
        )
    },
)
LOOK = Item(
    "look/1",
    "look",
    "What is on the table?",
    {},
    references={"Reference answer": "A cup."},
    answers={
        (model, "look"): ShownAnswer(
            "right",
            "A cup",
            rating="1 of 1 by judge",
            judgement="Both name a cup.",
            people=PeoplesRating("0.333 of 1", is_disputed=model == MODELS[2]),
        )
        for model in MODELS
    },
)
ITEMS = [*map(plan_item, range(COUNT)), PLAN, PARTS, LOOK]


def shown_task(number: int) -> str:
    """Return the task of a question in the list, without a chosen task."""
    return WRITTEN if number == 8 else MAIN


def verdicts(number: int, task: str) -> list[str]:
    return [
        answer.verdict for (_, of), answer in ITEMS[number].answers.items() if of == task
    ]  # no answer is unscored


def expected(show: str, tasks: dict[int, str]) -> int:
    """Count the questions of a saved filter, given the task of each."""
    sets = [{*verdicts(number, task)} for number, task in tasks.items()]
    return sum(found == {"wrong"} if show == "wrong" else len(found) > 1 for found in sets)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    runs = [Run(name, folder, "", "", "", {}) for name in MODELS]
    write_page(folder, SECTIONS, ITEMS, runs, ())
    return (folder / "index.html").as_uri()


@pytest.fixture
def page(browser, address):
    with watched_tab(browser, address) as opened:
        yield opened


def saved(page) -> dict[str, int]:
    """Return the numbers of questions next to the visible saved filters."""
    count(page)
    buttons = page.locator("#saved button:visible")
    return {
        buttons.nth(i).get_attribute("data-show"): int(
            buttons.nth(i).locator(".count").inner_text()
        )
        for i in range(buttons.count())
    }


def badges(page, key: str) -> list[str]:
    row = page.locator("#items li", has=page.locator(f"b:text-is('{key}')"))
    return row.locator(".mark").all_inner_texts()


def test_each_model_has_one_badge_for_the_chosen_task(page):
    legend = [text.split() for text in page.locator("#legend li").all_inner_texts()]
    assert legend == [[str(number), name] for number, name in enumerate(MODELS, 1)]
    signs = {"right": "✓", "wrong": "✗"}
    for task in ("", WRITTEN):
        page.select_option("[name=benchmark]", "plan")
        page.select_option("[name=task]", task)
        for number in (4, 7, 8):
            answered = [
                (number_of_model, verdict(model, task or shown_task(number), number))
                for number_of_model, model in enumerate(MODELS, 1)
                if (model, task or shown_task(number)) in ITEMS[number].answers
            ]
            found = ["".join(text.split()) for text in badges(page, f"plan/{number}")]
            assert found == [f"{model}{signs[of]}" for model, of in answered]
    page.select_option("[name=task]", MAIN)
    assert count(page) == f"{COUNT - 1} of {len(ITEMS)} questions"
    assert query(page) == {"benchmark": "plan", "task": MAIN}
    page.reload()
    assert count(page) == f"{COUNT - 1} of {len(ITEMS)} questions"
    assert page.locator("[name=task]").input_value() == MAIN
    page.go_back()
    page.wait_for_function("document.querySelector('[name=task]').value !== 'plan_val'")


def test_saved_filters_count_and_list_their_questions(page):
    tasks = {number: shown_task(number) for number in range(COUNT)}
    page.select_option("[name=benchmark]", "plan")
    assert saved(page) == {
        "wrong": expected("wrong", tasks),
        "differ": expected("differ", tasks),
        "disputed": 0,
    }
    assert page.locator("[data-show=disputed]").is_disabled()
    page.select_option("[name=task]", WRITTEN)
    written = dict.fromkeys(range(COUNT), WRITTEN)
    page.fill("[name=text]", "what")
    for show in ("wrong", "differ"):
        assert saved(page)[show] == expected(show, written) > 0
        page.click(f"[data-show={show}]")
        assert count(page) == f"{expected(show, written)} of {len(ITEMS)} questions"
        assert query(page) == {"benchmark": "plan", "task": WRITTEN, "show": show}
        assert page.locator(f"[data-show={show}]").get_attribute("aria-pressed") == "true"
    page.go_back()
    page.wait_for_function("location.hash.includes('show=wrong')")
    assert count(page).startswith(f"{expected('wrong', written)} of")
    page.reload()
    assert count(page).startswith(f"{expected('wrong', written)} of")
    page.click("[data-show=wrong]")
    assert count(page).startswith(f"{COUNT} of")
    assert query(page) == {"benchmark": "plan", "task": WRITTEN}


def test_two_chosen_models_disagree(page):
    page.select_option("[name=benchmark]", "plan")
    page.click("[data-show=differ]")
    page.select_option("[name=one]", MODELS[0])
    page.select_option("[name=two]", MODELS[2])
    pairs = [
        {
            ITEMS[number].answers[model, shown_task(number)].verdict
            for model in (MODELS[0], MODELS[2])
        }
        for number in range(COUNT)
        if number != 7
    ]
    assert count(page).startswith(f"{sum(len(pair) == 2 for pair in pairs)} of")


def test_ratings_of_judge_and_people_that_disagree(page):
    assert saved(page)["disputed"] == 2
    assert "more than half of the scale" in page.locator("#disputed-rule").inner_text()
    page.keyboard.press("Tab")
    page.locator("[data-show=disputed]").press("Enter")
    assert count(page).startswith("2 of")
    assert page.locator("#items b").all_inner_texts() == ["steps/1", "look/1"]
    page.evaluate("location.hash = '#gallery/look/1'")
    rows = page.locator(".rated tbody tr")
    rows.first.wait_for()
    assert ["disagree" in text for text in rows.all_inner_texts()] == [False, False, True]
    cells = rows.nth(0).locator("th, td").all_inner_texts()
    assert cells[0].split() == ["1", "Alpha-7B"]
    assert [cell.split("\n")[0] for cell in cells[1:]] == [
        "A cup",
        "A cup.",
        "✓ right",
        "Both name a cup.",
    ]


def test_a_link_of_a_score_finds_the_answers_in_any_task(browser, address):
    link = gallery_link("plan", run=MODELS[0])
    with watched_tab(browser, address + link) as page:
        assert count(page) == f"{COUNT - 1} of {len(ITEMS)} questions"
    link = gallery_link("plan", run=MODELS[0], task=WRITTEN, **{"fact:source": "Ego4D"})
    with watched_tab(browser, address + link) as page:
        assert count(page) == f"{COUNT // 2 - 1} of {len(ITEMS)} questions"
    with watched_tab(browser, address + gallery_link("plan", task="old")) as page:
        assert "has an answer in the task “old”" in page.locator("#notice").inner_text()
        assert count(page).startswith("0 of")


def test_the_answers_to_a_question_are_grouped_by_task(page):
    page.select_option("[name=benchmark]", "plan")
    page.select_option("[name=task]", WRITTEN)
    page.evaluate("location.hash = '#gallery/plan/6?benchmark=plan&task=plan_val_generate'")
    tasks = page.locator("details.task")
    tasks.first.wait_for()
    assert [text.split()[1] for text in tasks.locator("summary b").evaluate_all(
        "all => all.map((x) => 'Task ' + x.textContent)"
    )] == [WRITTEN, MAIN]  # fmt: skip
    assert tasks.evaluate_all("all => all.map((x) => x.open)") == [True, False]
    choices = tasks.nth(0).locator(".choices tbody th").all_inner_texts()
    chosen = {
        letter: [
            str(number)
            for number, model in enumerate(MODELS, 1)
            if ITEMS[6].answers[model, WRITTEN].chosen == position
        ]
        for position, letter in enumerate("ABCD")
    }
    for letter, text in zip("ABCD", choices, strict=True):
        assert ("right answer" in text) == (letter == "C")
        found = text.split("chosen by")[1].split() if "chosen by" in text else []
        assert found == chosen[letter]


def test_a_plan_is_next_to_the_gold_plans_with_equal_steps_marked(page):
    page.evaluate("location.hash = '#gallery/steps/1'")
    plan = page.locator("details.plan").nth(0)
    plan.wait_for()
    columns = plan.locator(".columns section")
    assert columns.locator("h3").all_inner_texts() == [
        "The model\u2019s plan",
        "Gold plan 1",
        "Gold plan 2",
    ]
    assert columns.nth(1).locator("p").inner_text() == "2 of 3 steps in order: 0.667"
    assert [
        [" ".join(text.split()) for text in columns.nth(i).locator("li.equal").all_inner_texts()]
        for i in range(3)
    ] == [
        ["grab(cup) = gold 1, step 1", "wash(the cup) = gold 1, step 3 = gold 2, step 1"],
        ["grab(cup) = step 2", "wash(cup) = step 3"],
        ["wash(cup) = step 3"],
    ]
    assert "(blank line)" in columns.nth(1).inner_text()
    assert "people: correct" in plan.inner_text()
    other = page.locator("details.plan").nth(1)
    assert other.locator("li.equal").count() == 0
    assert "1 of 3 steps in order" in other.inner_text()


def test_the_parts_of_an_answer_are_rows_with_reference_and_rating(page):
    page.evaluate("location.hash = '#gallery/parts/1'")
    page.locator(".in-parts").wait_for()
    rows = page.locator(".in-parts tbody tr").all_inner_texts()
    assert [" ".join(row.split()) for row in rows] == [
        "What",
        "Reference wash a cup",
        "1 Alpha-7B wash 100 of 100 Both wash.",
        "Why",
        "Reference to drink",
        "1 Alpha-7B missing 0 of 100",
        "Mean of the parts",
        "1 Alpha-7B ½ partly 50.0 of 100",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_form_of_answers(browser, address, scheme):
    skip_without_axe()
    for width in (1440, 400):
        settings = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
        with watched_tab(browser, address, **settings) as page:
            page.click("[data-show=differ]")
            assert flaws(page) == []
            for key in ("plan/6", "steps/1", "parts/1", "look/1"):
                page.evaluate("key => { location.hash = `#gallery/${key}`; }", key)
                page.locator(f"#item-key:has-text('{key}')").wait_for()
                page.locator("#item-body:not([aria-busy])").wait_for()
                assert flaws(page) == [], key
                body = "document.getElementById('item-body')"
                assert page.evaluate(f"{body}.scrollWidth - {body}.clientWidth") <= 0
                assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
