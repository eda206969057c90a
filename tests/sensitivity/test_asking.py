"""``lmms-egoplan sensitivity`` asks each distinct prompt once, resumes after a kill, and refuses
mixed replies.
"""

import json
import re
import sqlite3
import subprocess
import threading
from collections import Counter
from contextlib import closing

import pytest

from judge_server import JudgeServer, Reply, images_in
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of, rotated
from lmms_egoplan.benchmarks.egoplan.visuals import FrameReader
from lmms_egoplan.benchmarks.splits import EGOPLAN_BENCH2
from patience import FOREVER_S, running, wait_until
from sensitivity.answering_server import answering, arguments_of, command, sensitivity
from sensitivity.conftest import prepare_egoplan_val, prepare_questions
from sensitivity.planted import READABLE

PRESETS = load_presets("egoplan_bench2")
PROMPTS = ("official", "flageval", "mimo", "physbrain-evalkit", "seed-bench-r1")
VARIED = ("--vary", "parser,prompt,option-order")
PER_QUESTION = len(PROMPTS) + 3


def prompts_of(doc):
    """Return the prompts that `VARIED` asks of a question."""
    shifted = [prompt_of(PRESETS["official"], rotated(doc, shift)) for shift in (1, 2, 3)]
    return [*(prompt_of(PRESETS[name], doc) for name in PROMPTS), *shifted]


def run(server, out, *arguments, count=3):
    questions = ("--questions", str(count), "--out", out)
    return sensitivity(
        "egoplan_bench2", "tiny", *questions, *VARIED, *arguments_of(server), *arguments
    )


def numbers_in(result):
    """Return the numbers of the summary: asked, reused, failed, frame sets."""
    assert result.exit_code == 0, result.output
    return [
        int(number)
        for number in re.search(
            r"(\d+) asked, (\d+) reused, (\d+) failed, (\d+) ", result.stdout
        ).groups()
    ]


def test_each_prompt_is_asked_once_and_a_larger_sample_contains_the_smaller(data, tmp_path):
    docs = [*EGOPLAN_BENCH2.load("test")]
    with answering(lambda prompt: "A") as server:
        check = run(server, tmp_path / "out", "--check", count=2)
        assert check.exit_code == 0
        assert not server.prompts
        assert not (tmp_path / "out").exists()
        assert re.search(rf"\b{2 * PER_QUESTION} replies, 0 rankings, 16 images\b", check.stdout)
        assert f"2 of {len(docs)}" in check.stdout

        assert numbers_in(run(server, tmp_path / "out", count=2)) == [2 * PER_QUESTION, 0, 0, 2]
        small = Counter(server.prompts)
        assert numbers_in(run(server, tmp_path / "out", count=2)) == [0, 2 * PER_QUESTION, 0, 0]
        assert Counter(server.prompts) == small
        assert numbers_in(run(server, tmp_path / "out", count=4)) == [
            2 * PER_QUESTION,
            2 * PER_QUESTION,
            0,
            2,
        ]
    asked = [doc for doc in docs if prompts_of(doc)[0] in server.prompts]
    assert len(asked) == 4
    assert Counter(server.prompts) == Counter(prompt for doc in asked for prompt in prompts_of(doc))
    for body in server.bodies:
        assert (body["max_tokens"], body["temperature"], len(images_in(body))) == (1024, 0, 8)


@pytest.mark.whole
def test_a_killed_run_asks_only_what_is_missing(data, tmp_path):
    """Kill the process when it waits for the rest of a batch, with replies of earlier batches
    stored.
    """
    held, killed = [], threading.Event()

    def reply(prompt, before):
        if len(server.answered) >= PER_QUESTION and not killed.is_set():
            held.append(prompt)
            killed.wait(FOREVER_S)
        return Reply("B")

    with JudgeServer(reply) as server:
        options = ("--questions", "3", "--out", tmp_path / "out", *VARIED, *arguments_of(server))
        with subprocess.Popen(**command(data, "egoplan_bench2", "tiny", *options)) as first:
            wait_until(lambda: len(held) == 4, running(first))
            second = run(server, tmp_path / "out")
            assert second.exit_code == 1
            assert f"{tmp_path / 'out'} is in use" in second.output
            first.kill()
        asked = len(server.prompts)
        killed.set()
        assert numbers_in(run(server, tmp_path / "out")) == [2 * PER_QUESTION, PER_QUESTION, 0, 2]
        again = server.prompts[asked:]
    assert len(again) == len(set(again)) == 2 * PER_QUESTION
    assert set(again).isdisjoint(server.prompts[:PER_QUESTION])


def test_a_request_that_fails_is_named_and_all_other_replies_are_stored(data, tmp_path):
    is_up = threading.Event()
    with JudgeServer(
        lambda prompt, _: (
            Reply("C") if is_up.is_set() or "boxed" not in prompt else Reply("busy", status=400)
        )
    ) as server:
        failed = run(server, tmp_path / "out", count=1)
        assert failed.exit_code == 1
        assert re.search(r"sample_id \S+: .*busy", failed.output)
        assert f"{PER_QUESTION - 1} asked, 0 reused, 1 failed" in failed.stdout
        assert (
            f"1: {re.search(r'sample_id ([^:]+):', failed.output)[1]}"
            in (tmp_path / "out/sensitivity.md").read_text()
        )
        is_up.set()
        assert numbers_in(run(server, tmp_path / "out", count=1))[:3] == [1, PER_QUESTION - 1, 0]
        is_up.clear()
        # A request that always fails does not end the run: later batches are asked, and the page is
        # written.
        failed = run(server, tmp_path / "more", count=2)
        assert failed.exit_code == 1
        assert f"{2 * (PER_QUESTION - 1)} asked, 0 reused, 2 failed" in failed.stdout
        content = json.loads((tmp_path / "more/sensitivity.json").read_text())
        (lost,) = (x["cells"] for x in content["conditions"] if x["cells"]["missing"])
        assert content["incomplete"] == 1
        assert (lost["level"], lost["score"], lost["unparsed"]) == ("mimo", None, None)


def test_a_server_that_fails_at_everything_is_asked_one_batch(data, tmp_path):
    with JudgeServer(lambda prompt, _: Reply("busy", status=400)) as server:
        failed = run(server, tmp_path / "out", count=6)
    assert failed.exit_code == 1
    assert f"0 asked, 0 reused, {PER_QUESTION} failed" in failed.stdout
    assert not (tmp_path / "out/sensitivity.html").exists()


def test_replies_that_reach_the_token_limit_are_counted_also_after_a_resume(data, tmp_path):
    """One level of decoding allows 256 new tokens. The base and the other levels allow more."""
    message = {
        "index": 0,
        "finish_reason": "length",
        "message": {"role": "assistant", "content": None},
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 256, "total_tokens": 261}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [message],
        "usage": usage,
    }
    with JudgeServer(lambda prompt, _: Reply(body=json.dumps(body).encode())) as server:
        options = (
            "--questions",
            "1",
            "--out",
            tmp_path / "out",
            "--vary",
            "decoding",
            *arguments_of(server),
        )
        for reused in (0, 6):
            result = sensitivity("egoplan_bench2", "tiny", *options)
            assert result.exit_code == 0, result.output
            assert f"{reused} reused" in result.output
            content = json.loads((tmp_path / "out/sensitivity.json").read_text())
            shares = {
                x["condition"]["level"]: x["cells"]["truncated"] for x in content["conditions"]
            }
            assert shares.pop("seed-bench-r1") == 100
            assert set(shares.values()) == {0}
            assert content["base_unparsed"] == "100.0"
            assert "decoding: max_new_tokens: 1024" in content["base_unknown"]


@pytest.mark.parametrize(
    "benchmark", [pytest.param("egoplan", marks=pytest.mark.nightly), "egoplan_bench2"]
)
def test_a_server_gets_frames_instead_of_a_clip(data, tmp_path, monkeypatch, benchmark):
    if benchmark == "egoplan":
        monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(prepare_egoplan_val(tmp_path)))
    # --vary media also asks presets that show a video file, which lmms-eval reads by a package that
    # may be missing.
    with answering(lambda prompt: "A") as server:
        options = (
            "--questions",
            "1",
            "--out",
            tmp_path / "out",
            "--base",
            "seed-bench-r1",
            "--vary",
            "prompt",
        )
        result = sensitivity(benchmark, "tiny", *options, *arguments_of(server))
    assert result.exit_code == 0, result.output
    assert all(len(images_in(body)) >= 3 for body in server.bodies)


LEAD_INS = {
    "Let me see. {letter}": {"first_capital"},
    "Based on the video, {letter}": {"first_capital", "first_letter"},
    READABLE: set(),
}


@pytest.mark.nightly
@pytest.mark.parametrize("text", LEAD_INS)
def test_planted_lead_ins_lose_under_the_readers_that_misread_them(data, tmp_path, text):
    """A model that knows the right option, wherever it is, is found to depend only on the reader of
    its replies.
    """
    docs = [rotated(doc, shift) for doc in EGOPLAN_BENCH2.load("test") for shift in range(4)]
    letters = {
        prompt_of(PRESETS[name], doc): doc["golden_choice_idx"] for doc in docs for name in PROMPTS
    }
    with answering(lambda prompt: text.format(letter=letters[prompt])) as server:
        assert numbers_in(run(server, tmp_path / "out", count=100))[2] == 0
    content = json.loads((tmp_path / "out/sensitivity.json").read_text())
    conditions = (x["condition"] | x["cells"] for x in content["conditions"])
    scores = {x["parser"]: x["score"] for x in conditions if x["factor"] in ("base", "parser")}
    for parser in ("first_letter", "first_capital"):
        assert (scores[parser] < 50) if parser in LEAD_INS[text] else (scores[parser] == 100)
    moving = {row["factor"] for row in content["factors"] if row["p_holm"] < 0.05}
    expected = {"parser"} if LEAD_INS[text] else set()
    # A reader that finds B in every reply also finds it after a rotation, which moves the right
    # letter.
    assert moving - {"option order"} == expected
    assert "option order" not in moving or "first_letter" in LEAD_INS[text]


@pytest.mark.nightly
def test_a_planted_preference_for_a_moves_with_the_order(data, tmp_path):
    with answering(lambda prompt: "A") as server:
        assert numbers_in(run(server, tmp_path / "out", count=100))[2] == 0
    content = json.loads((tmp_path / "out/sensitivity.json").read_text())
    changed = {row["factor"]: row["changed"] for row in content["factors"]}
    assert changed["option order"] == 100
    assert changed["prompt"] == 0


def test_replies_with_other_settings_are_refused(data, tmp_path):
    out, summary = tmp_path / "out", data / "egoplan_bench2" / "test" / "summary.json"
    with answering(lambda prompt: "A") as server:
        assert numbers_in(run(server, out, count=1))[0] == PER_QUESTION

        def refused(*facts, model="tiny", more=""):
            backend = arguments_of(server)
            backend[-1] += more
            result = sensitivity(
                "egoplan_bench2", model, "--questions", "1", "--out", out, *VARIED, *backend
            )
            assert result.exit_code == 1
            assert all(fact in result.output for fact in (*facts, str(out))), result.output

        refused("model: ['tiny'", model="other")
        refused("system_prompt", more=",system_prompt=Think.")
        text = summary.read_text()
        try:
            summary.write_text(text.replace(json.loads(text)["fingerprint"], "0" * 64))
            refused("data: ", "0" * 64)
        finally:
            summary.write_text(text)
        with closing(sqlite3.connect(out / "replies.sqlite", isolation_level=None)) as database:
            database.execute("INSERT INTO replies VALUES ('foreign', '1', NULL)")
        refused("damaged")
        (out / "replies.sqlite").write_bytes(b"x" * 5000)
        refused("damaged")
        assert len(server.prompts) == PER_QUESTION


def test_a_damaged_video_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(prepare_questions(tmp_path)))
    for video in tmp_path.rglob("*.mp4"):
        video.write_bytes(video.read_bytes()[:2000])
    with answering(lambda prompt: "A") as server:
        result = run(server, tmp_path / "out", count=1)
    assert result.exit_code == 1
    assert re.search(r"sample_id \S+: .*\.mp4", result.output)


@pytest.mark.parametrize(
    ("option", "facts"),
    [
        (("--vary", "promt"), ("--vary promt", "prompt", "option order")),
        (("--vary", "parser,medium"), ("--vary medium", "media")),
        (("--base", "offical"), ("--base offical", "official", "flageval")),
        (("--vary", "scoring"), ("--vary scoring", "hf_vlm")),
        (("--backend", "async_opnai"), ("async_opnai", "async_openai")),
    ],
)
def test_wrong_names_are_explained(data, option, facts):
    result = sensitivity("egoplan_bench2", "tiny", "--backend", "async_openai", *option)
    assert result.exit_code == 1
    assert all(fact in result.output for fact in facts), result.output


@pytest.mark.nightly
def test_a_local_model_writes_and_ranks_with_one_decode_per_frame_set(data, tmp_path, monkeypatch):
    """Frames are decoded once for prompts, orders, decodings and likelihoods of a question."""
    from lmms_egoplan.demo.checkpoint import write_checkpoint

    write_checkpoint(tmp_path / "checkpoint")
    read_frames, calls = FrameReader.read_frames, []

    def counting(self, doc, numbers):
        calls.append((doc["sample_id"], *numbers))
        return read_frames(self, doc, numbers)

    monkeypatch.setattr(FrameReader, "read_frames", counting)
    monkeypatch.chdir(tmp_path)
    options = [
        "--vary",
        "prompt,decoding,option order,scoring",
        "--model-args",
        "dtype=float32,batch_size=4",
    ]
    arguments = ["egoplan_bench2", "checkpoint", "--out", "out", "--questions", "5", *options]
    result = sensitivity(*arguments, "--check")
    assert result.exit_code == 0, result.output
    assert "65 replies, 5 rankings, 40 images to decode" in result.output
    calls.clear()
    result = sensitivity(*arguments)
    assert result.exit_code == 0, result.output
    assert len(calls) == len(set(calls)) == 5
    assert "70 asked, 0 reused, 0 failed, 5 frame sets" in result.output

    with sqlite3.connect(tmp_path / "out" / "replies.sqlite") as database:
        replies = {
            key: json.loads(reply)
            for key, reply in database.execute("SELECT key, reply FROM replies")
            if key != "{}"
        }
    ranked = [reply for key, reply in replies.items() if json.loads(key)[0]["ranked"]]
    assert len(replies) == 70
    assert len(ranked) == 5
    for options_ in ranked:
        assert len(options_) == 4
        assert all(loss > 0 and tokens >= 1 for loss, tokens in options_)
