"""Compare the speed of `judge_all` with four threads that post one answer at a time.

Every run is a separate process. The server is another process that takes 0.2 seconds per request:

(a) the harness's way: one `requests.post` per answer, in 4 threads;
(b) `judge_all` with 32 concurrent requests, three times with an empty cache; the median counts. The
time includes
    importing openai, which is also printed separately: on a slow machine it is a fifth of the
    total;
(c) `judge_all` again after each run of (b), with a full cache.

    python perf/judging.py                                   # 700 answers, about a minute
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ANSWERS = 700
LATENCY = 0.2
CONCURRENCY = 32
THREADS = 4
REPEATS = 3
SERVER = Path(__file__).parents[1] / "tests" / "judge_server.py"
VERDICT = "The answers name the same thing. Rating: [[1]]"
PROMPT = """[Instruction]
Compare the answer of an assistant with the reference and rate how much of the reference it gives, \
as 0, 0.5 or 1.
Explain your rating in one or two sentences. Then write it as [[rating]], for example \
"Rating: [[0.5]]". Neither the
length of the answer nor its style matters. What it has beyond the reference matters only where it \
contradicts that.

[Question]
What do I hold in my left hand in picture {number}?

[Reference]
A blue mug with a white handle.

[Answer]
In picture {number} you hold a mug. It seems to be blue, and has a handle.
"""
PROMPTS = [PROMPT.format(number=number) for number in range(ANSWERS)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", choices=["posts", "judge_all", "cached"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        start = time.perf_counter()
        importing = 0.0
        if arguments.arm == "judge_all":
            import openai  # noqa: F401

            importing = time.perf_counter() - start
        ratings = _posts() if arguments.arm == "posts" else _judge_all()
        print(time.perf_counter() - start, importing)
        assert ratings == [1.0] * ANSWERS
        return
    print(f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as data, _server() as url:
        environment = os.environ | {
            "LMMS_EGOPLAN_JUDGE_MODEL": "judge",
            "LMMS_EGOPLAN_JUDGE_BASE_URL": url,
            "LMMS_EGOPLAN_JUDGE_API_KEY": "none",
            "LMMS_EGOPLAN_JUDGE_CONCURRENCY": str(CONCURRENCY),
        }
        print(
            "run                     judging, s      importing openai, s  whole process, s",
            flush=True,
        )
        posts, *_ = _run("(a) 4 threads of posts", "posts", environment)
        judged, imported, cached = [], [], []
        for repeat in range(REPEATS):
            environment["LMMS_EGOPLAN_DATA"] = f"{data}/{repeat}"
            seconds, importing, _ = _run("(b) judge_all", "judge_all", environment)
            judged.append(seconds)
            imported.append(importing)
            cached.append(_run("(c) judge_all, cached", "cached", environment)[2])
    ideal, ours = ANSWERS * LATENCY / CONCURRENCY, statistics.median(judged)
    asking = ours - statistics.median(imported)
    print(
        f"medians: (a) / (b) {posts / ours:.2f} (target: at least 6); (b) / {ideal:.3f} s "
        f"{ours / ideal:.2f} (limit 1.25), {asking / ideal:.2f} without the import; whole process "
        f"of (c) {statistics.median(cached):.2f} s (limit 2)"
    )


def _run(title: str, arm: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Return the seconds of judging (imports included), of importing openai, and of the whole
    process.
    """
    start = time.perf_counter()
    printed = subprocess.check_output(
        [sys.executable, __file__, "--arm", arm], env=environment, text=True
    )
    whole = time.perf_counter() - start
    inside, importing = map(float, printed.split())
    print(f"{title:22}{inside:12.2f}  {importing:23.2f}  {whole:16.2f}", flush=True)
    return inside, importing, whole


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, str(SERVER), "--latency", str(LATENCY), "--text", VERDICT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _posts() -> list[float]:
    import requests

    url = os.environ["LMMS_EGOPLAN_JUDGE_BASE_URL"] + "/chat/completions"

    def rate(prompt: str) -> float:
        message = {"role": "user", "content": prompt}
        body = {"model": "judge", "messages": [message], "temperature": 0}
        response = requests.post(
            url, json=body, headers={"Authorization": "Bearer none"}, timeout=60
        )
        response.raise_for_status()
        return _read(response.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(rate, PROMPTS))


def _judge_all() -> list[float | None]:
    from lmms_egoplan.judging.judge import judge_all
    from lmms_egoplan.judging.judgement import JudgeRequest, RatingScale
    from lmms_egoplan.judging.settings import judge_settings

    requests = [
        JudgeRequest(f"perf/{number}", prompt, "", "") for number, prompt in enumerate(PROMPTS)
    ]
    judgements = judge_all(requests, RatingScale(_read, best=1.0), judge_settings("judge"))
    return [judgement.rating for judgement in judgements]


def _read(verdict: str) -> float:
    return float(verdict.rsplit("[[", 1)[1].split("]]")[0])


if __name__ == "__main__":
    main()
