"""Label EgoIntent steps over HTTP and export the labels."""

import csv
import re

from annotation import serving
from annotation.serving import label_all
from lmms_egoplan.annotation.egointent import FLOW


def unchanged(page):
    """Return the initial values of a form, with all labels supported."""
    values = dict(re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', page))
    values |= dict(re.findall(r'name="(end_sec)" [^>]*?value="([^"]+)"', page))
    values |= dict.fromkeys(re.findall(r'name="(supported_\w+|boundary)"', page), "yes")
    return values | dict(re.findall(r'name="(environment)" value="(\w+)" required checked', page))


def label(store, change):
    """Label everything over HTTP. `change` maps stage, initial values and page to the values."""
    names = {stage.title: stage.name for stage in FLOW.stages}

    def values_of(_, page):
        title = re.search(r'<p class="lead">([^.]+)\.', page)[1]
        return change(names[title], unchanged(page), page)

    label_all(store, values_of)


def export(store):
    output, out = serving.export(store)
    with (out / "audit.csv").open() as file:
        rates = {row["rate"]: row for row in csv.DictReader(file)}
    return out / "steps.jsonl", rates, output
