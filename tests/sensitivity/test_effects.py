"""Effects of planted models, statistics against slow versions, and the written files."""

import json
import random
import re
from collections import defaultdict

import pytest

from axe import flaws, skip_without_axe
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.sensitivity.effects import chosen, effects_of, factors_of, finding, write
from patience import FOREVER_S
from sensitivity.planted import (
    LETTERS,
    PARSERS,
    READABLE,
    always,
    ask,
    base,
    content,
    fields,
    noisy,
    orders,
    parsers,
    presets,
    questions,
    scorings,
)

WIDTHS = (1300, 400)
MODEL = "Qwen2.5-VL-7B-Instruct"


@pytest.fixture(scope="module")
def docs():
    return questions()


def effects(model, conditions, docs):
    return effects_of(conditions, docs, ask(model, conditions, docs))


def moving(rows):
    return {row["factor"] for row in rows if row["p_holm"] < 0.05}


def test_a_lead_in_without_a_letter_of_an_option_loses_only_under_the_first_capital(docs):
    conditions = [base(), *parsers("first_capital", "last_bracketed"), *orders()]
    scored = effects(content(docs, text="Let me see. {letter}"), conditions, docs)
    reference, lost, equal, *_ = (effect.cells for effect in scored)
    assert 50 < reference["score"] == equal["score"] < 70
    assert (lost["score"], lost["difference"], lost["unparsed"]) == (0, -reference["score"], 100)
    assert lost["changed"] == 100
    assert (equal["difference"], equal["p_holm"]) == (0, 1)
    rows = list(factors_of(scored))
    assert moving(rows) == {"parser"}
    sentence = finding(rows, "m")[0]
    assert "parser" in sentence
    assert f"\N{MINUS SIGN}{reference['score']:.1f} points" in sentence


def test_a_lead_in_that_starts_with_b_is_always_read_as_b(docs):
    conditions = [base(), *parsers(*(name for name in ("first_capital",) if name in READERS))]
    share_of_b = 100 * sum(doc["golden_choice_idx"] == "B" for doc in docs.values()) / len(docs)
    for effect in effects(content(docs, text="Based on the video, {letter}"), conditions, docs):
        assert effect.cells["score"] == pytest.approx(share_of_b)
        assert set(effect.choices.values()) == {1}


def test_a_model_that_always_answers_a_moves_with_the_order(docs):
    scored = effects(always("A"), [base(), *orders(), *fields()], docs)
    golds = [doc["golden_choice_idx"] for doc in docs.values()]
    for shift, effect in enumerate(scored[1:4], 1):
        shown_first = LETTERS[-shift]
        assert effect.cells["score"] == pytest.approx(100 * golds.count(shown_first) / len(golds))
        assert effect.cells["changed"] == 100
        assert effect.cells["p_holm"] < 0.05
    rows = list(factors_of(scored))
    assert moving(rows) == {"option order"}
    assert rows[0]["levels"] == 4
    scores = [effect.cells["score"] for effect in scored[:4]]
    assert rows[0]["spread"] == pytest.approx(max(scores) - min(scores))


def test_a_model_that_answers_by_content_moves_with_nothing(docs):
    names = [name for name in PARSERS if name in READERS]
    conditions = [base(), *parsers(*names), *orders(), *fields(), *scorings(), *presets()]
    scored = effects(content(docs, text=READABLE), conditions, docs)
    compared = [effect.cells for effect in scored if "p_value" in effect.cells]
    assert len(compared) == len(conditions) - 2  # the base, and the preset that equals it
    assert all((x["difference"], x["changed"], x["p_holm"]) == (0, 0, 1) for x in compared)
    rows = list(factors_of(scored))
    assert moving(rows) == set()
    (sentence,) = finding(rows, "m")
    videos = len({doc["video_id"] for doc in docs.values()})
    # an interval of width 0 is no proof of equality
    assert f"more than {300 / videos:.1f} points" in sentence


def test_the_chosen_option_is_in_the_stored_order(docs):
    doc = next(iter(docs.values()))
    for shift, condition in enumerate([base(), *orders()]):
        for position, letter in enumerate(LETTERS):
            stored = (doc["choices"][-shift:] + doc["choices"][:-shift])[position]
            assert doc["choices"][chosen(condition, doc, letter)] == stored
    by_rule = {condition.parser: condition for condition in scorings()}
    losses = ((1.0, 9), (1.5, 2), (4.0, 1), (9.0, 1))
    texts = {"choices": ["wash the cup", "cut", "open the tap and the lid", "o"]}
    asked = texts | {"golden_choice_idx": "A"}
    assert [chosen(by_rule[rule], asked, losses) for rule in ("mean", "sum", "bytes")] == [0, 1, 2]
    assert chosen(base(), doc, "none of these") is None
    # The clear reader gets the options as asked.
    clear = [
        condition.__class__("parser", "clear", condition.asked, "clear") for condition in orders()
    ]
    third = (doc["choices"][-1:] + doc["choices"][:-1])[2]
    assert chosen(clear[0], doc, f"C {third}") == 1
    assert chosen(base("clear"), doc, f"C {third}") is None


def test_ties_missing_likelihoods_and_missing_replies_are_counted(docs):
    conditions = [base(), *scorings(), *orders()]
    replies = ask(content(docs), conditions, docs)
    first, second, third, fourth, *_ = docs
    replies[conditions[1].asked, first] = ((1.0, 4), (1.0, 4), (2.0, 4), (3.0, 4))
    replies[conditions[1].asked, second] = ((1.0, None),) * 4
    replies[conditions[1].asked, third] = ((None, None), (1.0, 3), (2.0, 3), (3.0, 3))
    replies[conditions[1].asked, fourth] = ((float("nan"), 4), (1.0, 3), (1.0, 3), (3.0, 3))
    for key in (first, second):
        del replies[orders()[0].asked, key]
    reference, mean, by_sum, by_bytes, rotated, *_ = effects_of(conditions, docs, replies)
    assert (mean.cells["ties"], mean.cells["unscored"], mean.cells["unparsed"]) == (2, 2, None)
    assert (by_sum.cells["unscored"], by_bytes.cells["unscored"]) == (3, 3)
    assert "ties" not in by_sum.cells
    assert mean.scores[third] is None
    assert (mean.cells["compared"], mean.cells["missing"]) == (298, None)
    assert (rotated.cells["questions"], rotated.cells["compared"]) == (298, 298)
    assert rotated.cells["missing"] == f"2: {first} and {second}"
    assert reference.cells["missing"] is None
    # Shares are of the answered questions.
    for key in docs:
        if key not in (first, second):
            replies[orders()[0].asked, key] = "nothing"
    _, _, _, _, unread, *_ = effects_of(conditions, docs, replies)
    assert unread.cells["unparsed"] == 100


def slow_difference(first, second):
    shared = [key for key in first if key in second]
    return 100 * sum(first[key] - second[key] for key in shared) / len(shared)


def by_video(first, second, docs):
    groups = defaultdict(list)
    for key in first:
        if key in second:
            groups[docs[key]["video_id"]].append(first[key] - second[key])
    return list(groups.values())


def slow_interval(groups, resamples=4000):
    chance, means = random.Random(5), []
    for _ in range(resamples):
        drawn = [value for group in chance.choices(groups, k=len(groups)) for value in group]
        means.append(100 * sum(drawn) / len(drawn))
    means.sort()
    return means[int(0.025 * resamples)], means[int(0.975 * resamples)]


def slow_p_value(groups, flips=4000):
    chance, sums = random.Random(6), [sum(group) for group in groups]
    extreme = 0
    for _ in range(flips):
        extreme += (
            abs(sum(chance.choice((-1, 1)) * value for value in sums)) >= abs(sum(sums)) - 1e-9
        )
    return extreme / flips


def slow_holm(p_values):
    order, corrected, largest = sorted(range(len(p_values)), key=p_values.__getitem__), {}, 0
    for rank, index in enumerate(order):
        largest = max(largest, (len(order) - rank) * p_values[index])
        corrected[index] = min(1, largest)
    return [corrected[index] for index in range(len(p_values))]


def test_differences_intervals_and_p_values_equal_those_of_slow_versions(docs):
    prompt, media, *_ = fields()
    first, second, _ = orders()
    conditions = [base(), prompt, media, first, second, *presets()]
    scored = effects(noisy(docs, lower={"prompt": 0.4}), conditions, docs)
    compared = [effect for effect in scored if "p_value" in effect.cells]
    for effect in compared:
        cells, groups = effect.cells, by_video(effect.scores, scored[0].scores, docs)
        assert cells["difference"] == pytest.approx(
            slow_difference(effect.scores, scored[0].scores)
        )
        changed = [effect.choices[key] != scored[0].choices[key] for key in docs]
        assert cells["changed"] == pytest.approx(100 * sum(changed) / len(docs))
        assert (cells["low"], cells["high"]) == pytest.approx(slow_interval(groups), abs=0.7)
        assert cells["p_value"] == pytest.approx(slow_p_value(groups), abs=0.03)
    for in_family in (
        lambda x: x.condition.factor == "preset",
        lambda x: x.condition.factor != "preset",
    ):
        family = [effect.cells for effect in compared if in_family(effect)]
        assert [x["p_holm"] for x in family] == pytest.approx(
            slow_holm([x["p_value"] for x in family])
        )
    assert moving(factors_of(scored)) == {"prompt"}
    (row,) = (row for row in factors_of(scored) if row["factor"] == "option order")
    ends = [
        abs(effect.cells[end])
        for effect in scored
        if effect.condition in orders()
        for end in ("low", "high")
    ]
    assert row["bound"] == pytest.approx(
        max(*ends, 300 / len({doc["video_id"] for doc in docs.values()}))
    )


def test_few_videos_have_no_interval_and_no_bound(docs):
    few = {key: doc for key, doc in docs.items() if int(key) <= 63}
    scored = effects(content(few), [base(), *orders()], few)
    assert scored[1].cells["videos"] == 9
    assert scored[1].cells["low"] is scored[1].cells["score_low"] is None
    (row,) = factors_of(scored)
    assert row["bound"] is None
    assert "no bound" in finding([row], "m")[0]


CONDITIONS = [base(), *parsers("clear"), *orders(), *fields(), *scorings(), *presets()]


@pytest.fixture(scope="module")
def out(tmp_path_factory, docs):
    folder = tmp_path_factory.mktemp("sensitivity")
    replies = ask(noisy(docs, lower={"prompt": 0.4}), CONDITIONS, docs)
    for key in list(docs)[:9]:
        del replies[orders()[1].asked, key]
    write(folder, "egoplan_bench2", MODEL, CONDITIONS, docs, replies, total=1321)
    return folder


def test_the_files_have_findings_tables_and_published_scores(out, docs):
    content_of_run = json.loads((out / "sensitivity.json").read_text())
    markdown, page = (out / "sensitivity.md").read_text(), (out / "sensitivity.html").read_text()
    assert [record["condition"]["level"] for record in content_of_run["conditions"]] == [
        x.level for x in CONDITIONS
    ]
    assert (content_of_run["questions"], content_of_run["total"]) == (300, 1321)
    assert "moves with prompt" in content_of_run["finding"][0]
    for sentence in content_of_run["finding"]:
        assert sentence in markdown
        assert sentence in page
    assert "300 of 1,321 questions" in markdown
    assert re.search(
        r"\| option order \| rotated by 2 \|.*\| 9: 1, 2, 3, 4, 5 and 4 more \|", markdown
    )
    # lmms-eval's preset states neither prompt nor media: the values in use are listed.
    (line,) = re.findall(r"^\| lmms-eval-0.7.3 \|.*$", markdown, re.MULTILINE)
    assert "prompt: " in line
    assert "media: " in line
    assert len(published_rows(markdown)) > 3
    scored = [record["cells"] for record in content_of_run["conditions"]]
    by_name = {cells["level"]: cells for cells in scored if cells["factor"] == "preset"}
    for row in published_rows(markdown):
        score = float(row[2])
        around = [
            name
            for name, cells in by_name.items()
            if cells["score_low"] <= score <= cells["score_high"]
        ]
        assert re.split(", | and ", row[3]) == (around or ["none"])


def published_rows(markdown):
    table = markdown.partition("**Published scores")[2].strip().splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table
        if line.startswith("|")
    ]
    return rows[2:]


def test_an_unknown_checkpoint_has_no_published_scores(tmp_path, docs, capsys):
    few = dict(list(docs.items())[:9])
    conditions = [base(), *presets()]
    write(
        tmp_path,
        "egoplan_bench2",
        "mine-1b",
        conditions,
        few,
        ask(content(few), conditions, few),
        total=9,
    )
    assert "no score of mine-1b" in (tmp_path / "sensitivity.md").read_text()
    assert "No single factor was compared" in capsys.readouterr().out
    assert "no interval" in (tmp_path / "sensitivity.html").read_text()


@pytest.fixture
def tab(browser, out):
    page, messages = browser.new_page(), []
    page.set_default_timeout(1000 * FOREVER_S)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto((out / "sensitivity.html").as_uri())
    yield page
    page.close()
    assert messages == []


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_its_window(tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
    bars = tab.locator(".slice .plot")
    assert bars.count() == len(CONDITIONS) - 2
    assert (
        max(bars.evaluate_all("(all) => all.map((bar) => bar.getBoundingClientRect().right)"))
        <= width
    )
    assert tab.locator(".finding p").first.bounding_box()["y"] < 300


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab, scheme):
    skip_without_axe()
    tab.emulate_media(color_scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert flaws(tab) == []
