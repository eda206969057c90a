"""EgoThink on lmms-eval's chat backends for OpenAI-compatible servers: what the model and the judge are sent."""

import base64
import io

import pytest
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager
from PIL import Image

from benchmarks.egothink.source import shade, write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.paths import LMMS_EVAL_TASKS

QUESTIONS = 4
TASK = "egothink_planning_assistance"


@pytest.fixture
def data(tmp_path, monkeypatch):
    for name in ("MODEL_VERSION", "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "API_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_egothink(write_source(tmp_path / "source", QUESTIONS))
    return tmp_path


def parts(body):
    """Text and image of a request's user turn, in order."""
    found = []
    for part in body["messages"][-1]["content"]:
        if part["type"] == "text":
            found.append(part["text"])
        else:
            data = part["image_url"]["url"].split(",")[1]
            found.append(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
    return found


@pytest.mark.parametrize("backend", ["openai", "async_openai"])
def test_a_chat_backend_is_sent_image_and_prompt_and_its_answers_are_judged(data, monkeypatch, backend):
    thinking = "<think>It holds [[1]] of them.</think>The assistance 1."
    with (
        JudgeServer(lambda prompt, asked_before: Reply(thinking)) as model,
        JudgeServer(
            lambda prompt, asked_before: Reply(
                "Right. [[1]]" if "\nThe assistance 1.\n\n[The End of Ref" in prompt else "[[0]]"
            )
        ) as judge,
    ):
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", judge.url)
        evaluated = simple_evaluate(
            backend,
            f"model=tiny,base_url={model.url},api_key=none,max_retries=1",
            tasks=[TASK],
            task_manager=TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False),
            log_samples=True,
        )
    index = next(i for i, dimension in enumerate(DIMENSIONS) if dimension.name == "assistance")
    assert len(model.bodies) == QUESTIONS
    for body in model.bodies:
        image, prompt = parts(body)
        (number,) = (n for n in range(1, QUESTIONS + 1) if f"thing {n} of" in prompt)
        question = f"What is thing {number} of assistance? "
        assert prompt == f"Answer your question in a detailed and helpful way. Question: {question} Short answer:"
        assert image.getpixel((9, 9))[0] == pytest.approx(shade(index, number - 1), abs=2)
        assert body["max_tokens"] == 300
        assert body["temperature"] == 0
    assert len(judge.prompts) == 1 + QUESTIONS
    assert not any("[[1]] of them" in prompt for prompt in judge.prompts)
    results = evaluated["results"][TASK]
    assert results["score,judged"] == pytest.approx(100 / QUESTIONS)
    assert results["judge_coverage,judged"] == 1
    assert results["judge_model,judged"] == "gpt-4o-2024-11-20"
    records = [sample["score"] for sample in evaluated["samples"][TASK]]
    assert [record["id"] for record in records] == [f"assistance/{number}" for number in range(1, QUESTIONS + 1)]
    assert {record["answer"] for record in records} == {"The assistance 1."}
    assert {record["suspect"] for record in records} == {False}


def test_llavas_prompt_is_a_system_prompt_for_chat_backends(data, monkeypatch):
    manager = TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False, model_name="llava_hf")
    task = manager.load_task_or_group(TASK, "chat")[TASK]
    doc = task.test_docs()[0]
    system, user = task.doc_to_messages(doc)
    assert system["role"] == "system"
    assert system["content"][0]["text"].startswith("You are a person in the situation shown in the image.")
    image, question = user["content"]
    assert (image["type"], question) == ("image", {"type": "text", "text": doc["question"]})
