"""Combine all faults of an endpoint with two processes judging the same answers, and five kills."""

import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import SCALE, environment, request
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.settings import judge_settings

pytestmark = [pytest.mark.usefixtures("data"), pytest.mark.whole]

COUNT, KILLS, CONCURRENCY = 400, 5, 6
BETWEEN_KILLS = 60
MINUTES = 600
SEED = 20
KEY = "sk-of-the-test-"
PROMPTS = [f"Rate answer {n}." for n in range(COUNT)]


def wrong(rating):
    return "[[0]]" if rating else "[[1]]"


def body(**message):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"model": "judge", "choices": [choice]}).encode()


def retry_now(reply):
    reply.headers = {"Retry-After-Ms": "1"}
    return reply


# Temporary faults. Each precedes one good reply.
TEMPORARY = {
    **{
        f"status {n}": (lambda _, n=n: retry_now(Reply("busy", status=n)))
        for n in (408, 409, 425, 429, 500, 502, 503)
    },
    "dropped": lambda _: Reply(drop=True),
    "cut": lambda rating: Reply(
        f"It would get {wrong(rating)}. But let me compare", finish="length"
    ),
    "cut at a rating": lambda rating: Reply(f"It gets {wrong(rating)}", finish="max_tokens"),
    "filtered": lambda rating: Reply(f"So {wrong(rating)}", finish="content_filter"),
    "unknown end": lambda rating: Reply(f"{wrong(rating)} or else", finish="odd"),
    "unfinished thought": lambda rating: Reply(f"<think>It gets {wrong(rating)}"),
    "no rating": lambda _: Reply("I cannot say."),
    "off the scale": lambda rating: Reply(f"{wrong(rating)}, no, [[7]]"),
    "invalid JSON": lambda _: Reply(body=b'{"choices": [{"mess'),
    "a page": lambda _: Reply(
        body=b"<html>[[1]]\xff</html>", headers={"Content-Type": "text/html"}
    ),
    "no choices": lambda _: Reply(choices=0),
    "no text": lambda rating: Reply(
        body=body(content=None, reasoning_content=f"Surely {wrong(rating)}")
    ),
}
# Good replies that are easily misread.
GOOD = {
    "plain": lambda rating: Reply(f"Rating: [[{rating:g}]]"),
    "closed thought": lambda rating: Reply(
        f"<think>Surely {wrong(rating)}</think>Rating: [[{rating:g}]]"
    ),
    "thought of the template": lambda rating: Reply(
        f"Surely {wrong(rating)}</think>Rating: [[{rating:g}]]"
    ),
    "separate reasoning": lambda rating: Reply(
        body=body(content=f"[[{rating:g}]]", reasoning=wrong(rating))
    ),
    "no finish reason": lambda rating: Reply(f"[[{rating:g}]] it is", finish=None),
    "key": lambda rating: Reply(f"{KEY}{{}} [[{rating:g}]]"),
    "slow": lambda rating: Reply(f"[[{rating:g}]]", delay=0.1),
}
# Replies that never have a rating.
PERMANENT = {
    **{f"refused {n}": (lambda _, n=n: Reply("no such prompt", status=n)) for n in (400, 413, 422)},
    "always cut": lambda rating: Reply(f"So {wrong(rating)}", finish="length"),
    "never rated": lambda _: Reply("no idea"),
    "never answered": lambda _: Reply("busy", status=503, headers={"x-should-retry": "false"}),
}


class Faults:
    """Define the server's replies, and a gate that limits how many prompts are answered."""

    def __init__(self):
        source = random.Random(SEED)
        self.rating = {prompt: source.choice((0.0, 0.5, 1.0)) for prompt in PROMPTS}
        self.permanent = {
            prompt: source.choice([*PERMANENT]) for prompt in source.sample(PROMPTS[20:], 40)
        }
        answered = [prompt for prompt in PROMPTS if prompt not in self.permanent]
        self.temporary = {
            prompt: source.choice([*TEMPORARY]) for prompt in source.sample(answered, 150)
        }
        self.silent = set(
            source.sample([prompt for prompt in answered if prompt not in self.temporary], 3)
        )
        self.good = {prompt: source.choice([*GOOD]) for prompt in answered}
        self.asked = Counter()
        self.by_process = {}
        self.rated = Counter()
        self.open = 0
        self.change = threading.Condition()

    def __call__(self, prompt, _):
        headers, bodies = self.server.headers, self.server.bodies
        with self.change:
            index = max(n for n, asked in enumerate(self.server.prompts) if asked == prompt)
            if "max_tokens" in bodies[index]:
                return Reply("Unsupported parameter: 'max_tokens'", status=400)
            key = headers[index]["authorization"]
            process = int(re.search(r"\d+$", key)[0])
            before = self.asked[prompt]
            self.asked[prompt] += 1
            self.by_process.setdefault(process, Counter())[prompt] += 1
            self.change.notify_all()
            is_silent = prompt in self.silent and not before
            limit = COUNT if is_silent else list(self.asked).index(prompt) + 1
            self.change.wait_for(lambda: self.open >= limit, timeout=MINUTES)
        if is_silent:
            return Reply(drop=True)
        rating = self.rating[prompt]
        if prompt in self.permanent:
            return PERMANENT[self.permanent[prompt]](rating)
        if prompt in self.temporary and not before:
            return TEMPORARY[self.temporary[prompt]](rating)
        with self.change:
            self.rated[prompt] += 1
        good = GOOD[self.good[prompt]](rating)
        good.text = good.text.replace("{}", str(process))
        return good

    def answer_first(self, count):
        with self.change:
            self.open = count
            self.change.notify_all()

    def wait_until(self, holds):
        with self.change:
            assert self.change.wait_for(holds, timeout=MINUTES)


def judge_them(path):
    """Judge all prompts; run by the processes."""
    requests = [request(prompt) for prompt in PROMPTS]
    try:
        judgements = judge_all(requests, SCALE, judge_settings("none"))
    except JudgeError as error:
        judgements = error.judgements
    Path(path).write_text(
        json.dumps([[j.rating, j.reply, j.error] for j in judgements]), encoding="utf-8"
    )


def start(server, number, data):
    key = f"{KEY}{number}"
    variables = environment(server, data, API_KEY=key, CONCURRENCY=CONCURRENCY, TIMEOUT=3600)
    path = data / f"result {number}.json"
    program = f"from judging.test_every_fault import judge_them; judge_them({str(path)!r})"
    log = (data / f"log {number}.txt").open("w")
    return subprocess.Popen([sys.executable, "-c", program], env=variables, stdout=log, stderr=log)


def test_every_answer_is_rated_once_and_correctly(data):
    faults, source = Faults(), random.Random(SEED + 1)
    in_flight = Counter()
    with JudgeServer(faults) as server:
        faults.server = server
        running = {number: start(server, number, data) for number in (0, 1)}
        started = len(running)
        for kill in range(KILLS):
            victim = [*running][kill % 2]
            enough = source.randint(1, 25)
            gate = BETWEEN_KILLS * (kill + 1)
            faults.answer_first(gate)
            faults.wait_until(
                lambda victim=victim, enough=enough, gate=gate: (
                    faults.by_process.get(victim, Counter()).total() >= enough
                    or (len(faults.asked) > gate and victim in faults.by_process)
                )
            )
            time.sleep(source.choice((0, 0.01, 0.05)))
            running[victim].kill()
            running.pop(victim).wait()
            rated = dict(select("prompt, rating", "judgements"))
            lost = [
                p for p in faults.by_process[victim] if p not in rated and p not in faults.permanent
            ]
            assert len(lost) <= CONCURRENCY, "lost more prompts than were in flight"
            in_flight.update(lost)
            running[started] = start(server, started, data)
            started += 1
        faults.answer_first(COUNT)
        for number, process in running.items():
            log = (data / f"log {number}.txt").read_text(encoding="utf-8")
            assert process.wait(timeout=MINUTES) == 0, log

    rated = dict(select("prompt, rating", "judgements"))
    could_be_rated = {
        prompt: rating for prompt, rating in faults.rating.items() if prompt not in faults.permanent
    }
    assert rated == could_be_rated
    for number in running:
        judgements = json.loads((data / f"result {number}.json").read_text(encoding="utf-8"))
        for prompt, (rating, reply, error) in zip(PROMPTS, judgements, strict=True):
            assert rating == could_be_rated.get(prompt), (prompt, reply, error)
            assert (error is None) is (rating is not None)
    for prompt in could_be_rated:
        assert 1 <= faults.rated[prompt] <= 1 + in_flight[prompt], f"{prompt} paid for twice"
        faulty = (prompt in faults.temporary) + (prompt in faults.silent)
        assert faults.asked[prompt] <= 1 + faulty + in_flight[prompt], prompt
    for counts in faults.by_process.values():
        for prompt, kind in faults.permanent.items():
            assert counts[prompt] <= (3 if kind in ("always cut", "never rated") else 1), (
                prompt,
                kind,
            )
    assert all(KEY.encode() not in path.read_bytes() for path in data.iterdir())
