"""Label EgoIntent steps over HTTP and export the labels."""

import csv
import re

from annotation import serving
from annotation.serving import label_all
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS


def unchanged(page):
    """Return the initial values of a form, with all labels supported."""
    texts = re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', page)
    cut = re.search(r'name="end_sec" [^>]*?value="([^"]+)"', page)[1]
    values = dict(texts) | {"end_sec": cut} | {f"supported_{field}": "yes" for field in FIELDS}
    environments = re.findall(r'name="environment" value="(\w+)" required checked', page)
    values |= dict(zip(("environment",), environments, strict=False))
    return values | ({"boundary": "yes"} if 'name="boundary"' in page else {})


def label(store, change):
    """Label everything over HTTP. `change` maps stage, initial values and page to the values."""

    def values_of(_, page):
        values = unchanged(page)
        return change("review" if "boundary" in values else "revise", values, page)

    label_all(store, values_of)


def export(store):
    output, out = serving.export(store)
    with (out / "audit.csv").open() as file:
        rates = {row["rate"]: row for row in csv.DictReader(file)}
    return out / "steps.jsonl", rates, output
