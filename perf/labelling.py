"""Measure the response time to a label: ten concurrent people and 500 items, over HTTP, with a
separate server process.

With ``--labels N``, measure an empty database and one with N existing labels. With ``--study``,
seven people label in a study with gold items, and three review a sample and all final
values.
"""

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

from annotation.rating import Rating, Studied, known_texts, study_of, texts
from annotation.serving import form_in
from annotation.test_many_people import _SERVER, STUDY, free_port
from lmms_egoplan.annotation.database import LEAD, Database, create
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import ANNOTATOR, Gold, Group, Study

# Gold items of the study.
GOLD = 50


def label_all(address: str, token: str, most: int, pause_s: float) -> list[tuple[float, float]]:
    """Label items of a person, at most this many, each after a random time with this mean.

    Returns:
        For each label, the seconds from sending it to the response that confirms it, and those of
        the next page.
    """
    times = []
    with httpx.Client(base_url=address, timeout=60) as client:
        page = client.get(f"/enter/{token}", follow_redirects=True).text
        while 'id="label"' in page and len(times) < most:
            action, hidden = form_in(page)
            time.sleep(random.uniform(0, 2 * pause_s))
            began = time.perf_counter()
            response = client.post(action, data=hidden | {"rating": random.choice("01")})
            confirmed = time.perf_counter()
            if response.status_code != 303:
                raise SystemExit(response.text)
            page = client.get(action.partition("label/")[0]).text
            times.append((confirmed - began, time.perf_counter() - confirmed))
    return times


def study_for(people: int, items: int, labels: int) -> Study:
    """Return the study of the tests, with numbers for many items."""
    groups = {
        "annotator": Group(count=people - 3),
        "reviewer": Group(count=3),
    }
    rounds = [one.model_copy(update={"sample": one.sample and items // 2}) for one in STUDY.rounds]
    return STUDY.model_copy(
        update={"people": groups, "rounds": rounds, "gold": Gold(labels="known.jsonl", every=10)}
    )


def fill(path: Path, people: Sequence[str], labels: int) -> None:
    """Write labels of the first items' first round, two per item, directly to the database."""
    at = "2026-01-01T00:00:00.000+00:00"
    with closing(sqlite3.connect(path)) as connection, connection:
        positions = connection.execute(
            "SELECT position FROM items WHERE part = 'main' ORDER BY position"
        ).fetchall()
        for number in range(labels):
            label = {
                "id": number + 1,
                "item": positions[number // 2][0],
                "stage": Rating.stages[0].name,
                "person": people[number % len(people)],
                "values": json.dumps({"rating": random.choice("01")}),
                "form": f"form {number}",
                "at": at,
            }
            connection.execute(
                """
                INSERT INTO slots (id, item, stage, person, state, "values", seconds, at, last)
                VALUES (:id, :item, :stage, :person, 'labelled', :values, 10.0, :at, :id)
                """,
                label,
            )
            connection.execute(
                """
                INSERT INTO history (id, slot, form, "values", comment, seconds, at)
                VALUES (:id, :id, :form, :values, '', 10.0, :at)
                """,
                label,
            )


def measure(
    folder: Path, people: int, items: int, labels: int, *, pause_s: float, is_study: bool
) -> list[float]:
    """Measure and print the response times with this many existing labels; return them sorted, in
    seconds.

    Also prints the seconds of the lead's pages.
    """
    path = folder / f"labels-{labels}.sqlite"
    if is_study:
        create(path, study_for(people, items, labels), *known_texts(items, GOLD))
    else:
        create(path, study_of(Rating, people, 2), texts(items))
    store = Store(Database(path), Studied() if is_study else Rating())
    lead = next(person.token for person in store.people() if person.role == LEAD)
    tokens = {person.name: person.token for person in store.people() if person.role == ANNOTATOR}
    store.close()
    fill(path, [name for name in tokens if name.startswith("annotator")], labels)
    decidable = labels // 4  # the position of an item with both labels, if there are any
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", _SERVER, path, str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1] / "tests"
    )
    while b"Stop with" not in server.stdout.readline():
        pass
    cpu_before = cpu_seconds(server.pid)
    most = 2 * (items - labels // 2) // people if is_study else items
    try:
        with ThreadPoolExecutor(people) as pool:
            times_by_person = pool.map(
                lambda token: label_all(address, token, most, pause_s), tokens.values()
            )
            label_times, page_times = zip(
                *(both for person_times in times_by_person for both in person_times), strict=True
            )
            times, page_times = sorted(label_times), sorted(page_times)
        cpu_s = cpu_seconds(server.pid) - cpu_before
        with httpx.Client(base_url=address, timeout=600, follow_redirects=True) as client:
            base = str(client.get(f"/enter/{lead}").url)
            lead_s = {
                page or "lead": seconds_of(lambda page=page: client.get(base + page))
                for page in ("", "agreement", f"adjudicate/{decidable}")
            }
    finally:
        server.kill()
        server.wait()
    median, percentile_95 = (1000 * times[int(share * len(times))] for share in (0.5, 0.95))
    print(
        f"{labels} existing labels: {len(times)} new labels, median {median:.0f} ms, 95 % under "
        f"{percentile_95:.0f} ms, all under {1000 * times[-1]:.0f} ms; next page: median "
        f"{1000 * page_times[len(times) // 2]:.0f} ms, 95 % under "
        f"{1000 * page_times[int(0.95 * len(times))]:.0f} ms, "
        f"all under {1000 * page_times[-1]:.0f} ms; {1000 * cpu_s / len(times):.1f} ms of the "
        "server's CPU time per label with its next page; "
        + ", ".join(f"{page} page {seconds:.2f} s" for page, seconds in lead_s.items())
    )
    return times


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a running process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_of(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10, help="Number of concurrent people.")
    parser.add_argument(
        "--items",
        type=int,
        default=500,
        help="Number of items to label over HTTP, two people per item.",
    )
    parser.add_argument(
        "--labels",
        type=int,
        default=0,
        help="Number of existing labels to compare with an empty database.",
    )
    parser.add_argument(
        "--pause",
        type=float,
        default=0.0,
        help="Mean number of seconds for which a person looks at an item.",
    )
    parser.add_argument(
        "--study",
        action="store_true",
        help="Label in rounds, with a sample and gold items.",
    )
    arguments = parser.parse_args()
    items = arguments.items + arguments.labels // 2
    with tempfile.TemporaryDirectory() as folder:
        counts = dict.fromkeys((0, arguments.labels))
        times = [
            measure(
                Path(folder),
                arguments.people,
                items if count else arguments.items,
                count,
                pause_s=arguments.pause,
                is_study=arguments.study,
            )
            for count in counts
        ]
    if arguments.labels:
        empty, full = (seconds[int(0.95 * len(seconds))] for seconds in times)
        print(
            f"95th percentile, {arguments.labels} existing labels / empty database: "
            f"{full / empty:.2f}"
        )


if __name__ == "__main__":
    main()
