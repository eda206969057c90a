"""Run the packaged studies in a browser."""

from collections import Counter

import pytest

from annotation.serving import run, served
from annotation.studies import opened
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.serve import media_folder
from lmms_egoplan.annotation.study import STUDIES
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set


def demo_items(name, tmp_path):
    """Return two items of a study's flow from the demo's rendered sets."""
    benchmark = name.partition("-")[0]
    copy_set(DEMO_SETS[benchmark], tmp_path)
    folder = media_folder(tmp_path / "labels.sqlite")
    items = FLOWS[benchmark].demo_items(tmp_path / DEMO_SETS[benchmark].folder, folder)[:2]
    if name == "egothink-questions":
        hidden = {"video": "a", "frame": 1, "digest": ""}
        return [
            Item(f"{n}.png", {"image": item.contents["image"]}, {"image": f"{n}.png", **hidden})
            for n, item in enumerate(items)
        ]
    return items


# The choices of people in the browser, and what the export says. Other fields get their first
# option.
CHOICES = {"correct": "1", "commonsense": "1", "rating": "1", "use": "yes"}
EXPORTED = {
    "egoplan": "Questions kept: 1 of 2",
    "egothink": "2 of 2 answers have all 3 ratings",
    "actplan": "Plans labelled: 2 of 2",
    "egothink-questions": "Questions accepted: 2 of 2",
    "egointent": "2 of 2",
}


def fill_in(page, field, limits, choices):
    """Choose or write what a field asks for, if it is shown."""
    name = field.get_attribute("data-name")
    if not field.is_visible():
        return
    values = [radio.get_attribute("value") for radio in field.locator("input[type=radio]").all()]
    if values:
        assert {*values} <= {*limits.get(name, values)}
        value = choices.get(name, values[0])
        if value not in values:
            value = values[0]
        page.click(f"label:has([name={name}][value='{value}'])")
    elif field.locator("textarea").count() and not page.input_value(f"[name={name}]"):
        page.fill(f"[name={name}]", "some words")


@pytest.mark.nightly
@pytest.mark.parametrize("name", STUDIES)
def test_packaged_studies_run_in_a_browser(tmp_path, browser, name):
    """Label two items in every round."""
    pytest.importorskip(f"lmms_egoplan.annotation.{name.replace('-', '_')}")
    store = opened(
        tmp_path, name, demo_items(name, tmp_path), qualification=int(name == "egoplan"), sample=1
    )
    study = store.database.study
    seen, choices = set(), CHOICES | {"choice": store.items()[1].hidden.get("golden")}

    def work(page, person):
        """Label until nothing is open."""
        limits = store.allowed_options(person)
        while page.locator("#label").count():
            seen.add(page.inner_text("p.lead").partition(".")[0])
            for field in page.locator("fieldset[data-name]").all():
                fill_in(page, field, limits, choices)
            with page.expect_navigation():
                page.click(".save button")
            assert page.locator("[role=alert]").count() == 0

    def work_as(people):
        for person in people:
            with browser.tab(address, store, person) as page:
                work(page, person)

    with served(store) as address:
        first = [
            f"{study.rounds[0].people}-{number + 1}" for number in range(study.rounds[0].per_item)
        ]
        work_as(first if study.qualification else ())
        for senior in range(study.seniors):
            with browser.tab(address, store, f"senior-{senior + 1}") as page:
                for person in first:
                    with page.expect_navigation():
                        page.click(f"form:has([value='{person}']) button[value=pass]")
        busy = Counter()
        for one in study.rounds:
            count = study.people[one.people].count
            work_as(
                [
                    f"{one.people}-{(busy[one.people] + number) % count + 1}"
                    for number in range(one.per_item)
                ]
            )
            busy[one.people] += one.per_item
        with browser.tab(address, store, "lead") as page:
            assert "annotator-1" in page.inner_text("main")
    assert len(seen) == len(study.rounds) + bool(study.qualification)
    code, output = run("annotate", "export", tmp_path / "labels.sqlite", "--out", tmp_path / "out")
    assert code == 0, output
    assert EXPORTED[name] in output
    store.close()
