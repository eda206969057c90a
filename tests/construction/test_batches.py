"""Build through batches: the same output as with single requests, and nothing is paid for twice."""

import json
import re

import pytest
from typer.testing import CliRunner

from construction.actplan.language_model import LanguageModel
from construction.actplan.rooms import room, write_activities, write_folder
from construction.ego4d_files import narrated, write_narrations
from construction.egointent import language_model as steps
from construction.egointent.small import write_small
from construction.egoplan import language_model as questions
from construction.language_model import environment, served, start_build
from judge_server import JudgeServer, Reply
from lmms_egoplan.cli import app
from lmms_egoplan.files import LOCK
from lmms_egoplan.judging import batches
from lmms_egoplan.outputs import MARKER
from patience import FOREVER_S

__all__ = ["environment", "served"]  # fixtures
pytestmark = pytest.mark.usefixtures("environment")

TEST_REQUEST = "Reply with the word: ready"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Poll often."""
    monkeypatch.setattr(batches, "_FIRST_POLL_S", 0.02)
    monkeypatch.setattr(batches, "_LONGEST_POLL_S", 0.05)
    monkeypatch.setattr(batches, "_TICK_S", 0.01)


def build(arguments, *options, exit_code=0):
    command = ["data", "build", *arguments, *options]
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert result.exit_code == exit_code, result.output
    return result


def egoplan(folder):
    """Write 70 distinct narrations in two videos, and return the command's arguments and server."""
    videos = {}
    for uid, first in (("a", 0), ("b", 30)):
        texts = [f"#C C takes cup {first + number}" for number in range(40)]
        videos[uid] = {"narration_pass_1": narrated(*enumerate(texts))}
    narrations = write_narrations(folder / "narration.json", videos)
    arguments = ["egoplan", narrations, "--source", "ego4d"]
    return arguments, JudgeServer(lambda *asked: questions.reply(*asked, lambda _: ""))


def egointent(folder):
    write_small(folder)
    arguments = ["egointent", folder / "goalstep.json", "--narrations", folder / "narration.json"]
    arguments += ["--videos", folder / "videos"]
    return arguments, JudgeServer(lambda *asked: steps.reply(*asked, lambda _: ""))


def actplan(folder):
    write_activities(folder / "bddl")
    rooms = [room("cookie", "table"), room("carton"), room("shelf", "cup")]
    write_folder(folder / "tours/home/packing_cookies/0/sample_0", rooms)
    return ["actplan", folder / "bddl", "--images", folder / "tours"], LanguageModel()


def with_test_request(reply):
    return lambda prompt, before: (
        Reply() if prompt.startswith(TEST_REQUEST) else reply(prompt, before)
    )


def contents(out):
    """Return the output files by name, or the one output file."""
    if out.is_file():
        return out.read_bytes()
    return {
        path.relative_to(out): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in (MARKER, LOCK)
    }


@pytest.mark.parametrize("prepare", [egoplan, egointent, actplan])
def test_batches_and_single_requests_give_the_same_output(tmp_path, monkeypatch, served, prepare):
    arguments, server = prepare(tmp_path)
    server.reply = with_test_request(server.reply)
    prompts = []
    outputs = []
    with served(server):
        for name, options in (("live", []), ("batch", ["--batch"])):
            monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / f"data-{name}"))
            server.prompts.clear()
            assert server.batches == {}
            build([*arguments, "--out", tmp_path / name], *options)
            prompts.append(sorted(server.prompts))
            outputs.append(contents(tmp_path / name))
        num_sent = len(server.prompts)
        build([*arguments, "--out", tmp_path / "again"], "--batch")
        assert len(server.prompts) == num_sent
    assert contents(tmp_path / "again") == outputs[0] == outputs[1]
    # A test request has the form of the prompts: one before those with a schema, one before others.
    sent = [prompt for prompt in prompts[1] if not prompt.startswith(TEST_REQUEST)]
    assert sent == prompts[0]
    assert 1 <= len(prompts[1]) - len(sent) <= 2
    assert sum(batch["request_counts"]["total"] for batch in server.batches.values()) == len(
        prompts[0]
    )


def test_a_batch_costs_half_and_has_the_form_that_the_model_accepts(tmp_path, served):
    """The model refuses the first name of the token limit, and schemas."""
    (tmp_path / "prices.json").write_text('{"gpt-4o-2024-11-20": {"input": 1000, "output": 1000}}')
    arguments, server = egoplan(tmp_path)
    arguments += ["--out", tmp_path / "built"]
    good = with_test_request(server.reply)

    def reply(prompt, before):
        body = server.bodies[-1]
        if "max_tokens" in body:
            return Reply("Unsupported parameter: 'max_tokens'.", status=400)
        if "response_format" in body:
            return Reply("Unsupported parameter: 'response_format'.", status=400)
        return good(prompt, before)

    server.reply = reply
    with served(server):
        prices = ("--prices", tmp_path / "prices.json")
        live, batch = (
            build(arguments, "--estimate", *prices, *options).stdout
            for options in ([], ["--batch"])
        )
        assert server.prompts == []
        paid = build(arguments, "--batch", *prices).stdout

    def price(output):
        amounts = re.search(r"Price: ~?([\d,.]+) for prompts, (?:at most )?([\d,.]+)", output)
        return [float(amount.replace(",", "")) for amount in amounts.groups()]

    assert price(batch) == pytest.approx([amount / 2 for amount in price(live)], abs=0.01)
    assert "half as much as live" in paid
    total = re.search(r"Total: .* requests, ([\d,]+) prompt tokens, ([\d,]+) reply", paid)
    tokens = [int(number.replace(",", "")) for number in total.groups()]
    assert price(paid) == pytest.approx([number * 1000 / 2e6 for number in tokens], abs=0.01)
    in_batches = [body for body in server.bodies if server.prompt_of(body) != TEST_REQUEST]
    assert len(in_batches) == 4
    assert not any("response_format" in body or "max_tokens" in body for body in in_batches)


@pytest.mark.whole
def test_a_killed_build_sends_no_batch_again(tmp_path, served):
    """The process is killed when the endpoint has created the second batch, of the goals."""
    arguments, server = egoplan(tmp_path)
    arguments += ["--out", tmp_path / "built", "--batch"]
    killed = []

    def kill(sent, _):
        if sent == "created" and len(server.batches) == 2 and not killed:
            killed.append(process.kill())
            process.wait()
            raise ConnectionError

    server.reply = with_test_request(server.reply)
    server.polls = 0
    server.on_batch = kill
    with served(server):
        process = start_build(server, tmp_path / "data", 1, *arguments)
        assert process.wait(FOREVER_S) < 0
        assert not (tmp_path / "built" / "EgoPlan_validation.json").exists()
        build(arguments)
        assert len(server.batches) == 2
        # Two requests for phrases, two for goals, and test requests of both processes.
        assert len([prompt for prompt in server.prompts if prompt != TEST_REQUEST]) == 4
    summary = json.loads((tmp_path / "built" / "summary.json").read_text())
    assert summary["videos"] == 2
