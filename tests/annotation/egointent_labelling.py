"""People who label steps over HTTP, and the export of what they said."""

import csv
import re

from typer.testing import CliRunner

from annotation.serving import enter, post, served
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.cli import app


def unchanged(page):
    """What the form holds when it is opened, all labels supported."""
    texts = re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', page)
    cut = re.search(r'name="end_sec" [^>]*?value="([^"]+)"', page)[1]
    values = dict(texts) | {"end_sec": cut} | {f"supported_{field}": "yes" for field in FIELDS}
    places = re.findall(r'name="environment" value="(\w+)" required checked', page)
    values |= dict(zip(("environment",), places, strict=False))
    return values | ({"boundary": "yes"} if 'name="boundary"' in page else {})


def label(store, change):
    """All label over HTTP; `change` gets the stage, the values and the page."""
    with served(store) as address:
        clients = [enter(address, store, known.person) for known in store.progress()]
        busy = True
        while busy:
            busy = False
            for client in clients:
                client.page = client.get("/")
                if 'id="label"' in client.page.text:
                    busy = True
                    values = unchanged(client.page.text)
                    stage = "review" if "boundary" in values else "revise"
                    assert post(client, **change(stage, values, client.page.text)).status_code == 200


def export(store):
    out = store.database.path.parent / "out"
    done = CliRunner().invoke(app, ["annotate", "export", str(store.database.path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    with (out / "audit.csv").open() as file:
        rates = {row["rate"]: row for row in csv.DictReader(file)}
    return out / "steps.jsonl", rates, done.output
