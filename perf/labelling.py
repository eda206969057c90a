"""How long a label's answer takes: ten people at once on 500 items, over HTTP, the server in a process of its own."""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

from annotation.rating import Rating, texts
from annotation.serving import form_in
from annotation.test_many_people import _SERVER, free_port
from lmms_egoplan.annotation.database import ANNOTATOR, Settings, create
from lmms_egoplan.annotation.store import Store


def label_all(address: str, token: str) -> list[float]:
    """Seconds from sending each label to the answer that it is saved."""
    times = []
    with httpx.Client(base_url=address, timeout=60) as client:
        page = client.get(f"/enter/{token}", follow_redirects=True).text
        while 'id="label"' in page:
            where, hidden = form_in(page)
            began = time.perf_counter()
            answer = client.post(where, data=hidden | {"rating": random.choice("01")})
            times.append(time.perf_counter() - began)
            if answer.status_code != 303:
                raise SystemExit(answer.text)
            page = client.get(where.partition("label/")[0]).text
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--items", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.sqlite"
        create(path, Settings(Rating.name, arguments.people, 2), texts(arguments.items), Rating.stages)
        store = Store(path, Rating.stages)
        tokens = [person.token for person in store.people() if person.role == ANNOTATOR]
        store.close()
        port = free_port()
        command = [sys.executable, "-c", _SERVER, path, str(port)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1] / "tests")
        while b"Stop with" not in server.stdout.readline():
            pass
        try:
            with ThreadPoolExecutor(len(tokens)) as pool:
                found = pool.map(lambda token: label_all(f"http://127.0.0.1:{port}", token), tokens)
                times = sorted(seconds for own in found for seconds in own)
        finally:
            server.kill()
            server.wait()
    middle, most = (1000 * times[int(share * len(times))] for share in (0.5, 0.95))
    print(f"{len(times)} labels: median {middle:.0f} ms, 95 % under {most:.0f} ms, all under {1000 * times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
