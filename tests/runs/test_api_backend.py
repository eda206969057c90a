"""Check the requests that lmms-eval's chat backends for OpenAI-compatible servers send to models
and judges.
"""

import re

import pytest

from benchmarks.egothink.source import shade, write_source
from judge_server import JudgeServer, Reply, images_in
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import read_numbers
from runs.both_harnesses import in_lmms_eval, lmms_tasks
from runs.harness import metric
from runs.small_set import prepare_small_set

# For each question, the server's reply and the letter in it.
REPLIES = [
    ("A", "A"),
    ("The answer is (B) wash the cup.", "B"),
    ("I do not know.", None),
    ("D. take", "D"),
    ("A or B", None),
    ("**D**", "D"),
    ("C", "C"),
    ("", None),
]
QUESTIONS = 4
SHORT, PLANNING = "egothink_object_existence", "egothink_planning_assistance"


@pytest.fixture
def data(tmp_path, monkeypatch):
    for name in (
        "MODEL_VERSION",
        "OPENAI_API_URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "API_TYPE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


def evaluate(backend, server, task):
    settings = f"model=tiny,base_url={server.url},api_key=none,max_retries=1"
    done = in_lmms_eval(
        settings, task, model=backend, folder=LMMS_EVAL_TASKS / task.partition("_")[0]
    )
    return done.results[task], done.samples[task], done.details[task]


@pytest.mark.parametrize(
    "backend", ["openai", pytest.param("async_openai", marks=pytest.mark.nightly)]
)
def test_letters_from_a_server(data, backend):
    """The server sends the Nth reply to the question about step N."""
    records = prepare_small_set(data, len(REPLIES))
    step_in = re.compile(r"after step (\d+)")
    with JudgeServer(lambda prompt, _: Reply(REPLIES[int(step_in.search(prompt)[1])][0])) as server:
        results, samples, _ = evaluate(backend, server, "egoplan_val_generate")
    letters = [letter for _, letter in REPLIES]
    assert [sample["details"]["predictions"]["prediction"] for sample in samples] == letters
    right = [
        letter == record["golden_choice_idx"]
        for letter, record in zip(letters, records, strict=True)
    ]
    assert 0 < sum(right) < len(right)
    assert metric(results, "acc") == pytest.approx(sum(right) / len(right))
    assert metric(results, "acc_epic_kitchens") == pytest.approx(sum(right[::2]) / len(right[::2]))
    assert metric(results, "acc_ego4d") == pytest.approx(sum(right[1::2]) / len(right[1::2]))
    assert metric(results, "unparsed") == pytest.approx(letters.count(None) / len(letters))

    steps = [int(step_in.search(prompt)[1]) for prompt in server.prompts]
    assert set(steps) == set(range(len(records)))
    for step, prompt, body in zip(steps, server.prompts, server.bodies, strict=True):
        record = records[step]
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("tiny", 16, 0)
        numbers = read_numbers(images_in(body))
        assert len(numbers) == 8
        assert numbers == sorted(numbers)
        assert numbers[0] == record["task_progress_metadata"][0]["start_frame"]
        assert numbers[-1] == record["current_observation_frame"]
        choices = [f"{letter}. {record[f'choice_{letter.lower()}']}" for letter in "ABCD"]
        assert prompt.splitlines()[:5] == [record["question"], *choices]


@pytest.mark.parametrize(
    "backend", [pytest.param("openai", marks=pytest.mark.nightly), "async_openai"]
)
def test_a_chat_backend_gets_image_and_prompt_and_its_answers_are_judged(
    data, monkeypatch, backend
):
    prepare_egothink(write_source(data / "source", QUESTIONS))

    def opinion(prompt, asked_before):
        return Reply(
            "Right. [[1]]" if "\nThe assistance 1.\n\n[The End of Ref" in prompt else "[[0]]"
        )

    with (
        JudgeServer(
            lambda *_: Reply("<think>It holds [[1]] of them.</think>The assistance 1.")
        ) as model,
        JudgeServer(opinion) as judge,
    ):
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", judge.url)
        results, samples, details = evaluate(backend, model, PLANNING)
    index = next(i for i, dimension in enumerate(DIMENSIONS) if dimension.name == "assistance")
    assert len(model.bodies) == QUESTIONS
    for body, prompt in zip(model.bodies, model.prompts, strict=True):
        (number,) = (n for n in range(1, QUESTIONS + 1) if f"thing {n} of" in prompt)
        question = f"What is thing {number} of assistance? "
        assert prompt == (
            f"Answer your question in a detailed and helpful way. Question: {question} "
            "Short answer:"
        )
        assert [part["type"] for part in body["messages"][-1]["content"]] == ["image_url", "text"]
        (image,) = images_in(body)
        assert image.convert("RGB").getpixel((9, 9))[0] == pytest.approx(
            shade(index, number - 1), abs=2
        )
        assert (body["max_tokens"], body["temperature"]) == (300, 0)
    assert len(judge.prompts) == 1 + QUESTIONS
    assert not any("[[1]] of them" in prompt for prompt in judge.prompts)
    assert results["score,judged"] == pytest.approx(100 / QUESTIONS)
    assert results["judge_coverage,judged"] == 1
    assert details["judge_model"] == "gpt-4o-2024-11-20"
    records = [sample["details"]["answer"] for sample in samples]
    assert [record["id"] for record in records] == [
        f"assistance/{number}" for number in range(1, QUESTIONS + 1)
    ]
    assert {(record["answer"], record["suspect"]) for record in records} == {
        ("The assistance 1.", False)
    }


def test_llava_gets_its_own_prompt(data):
    """In text for simple backends, and as a system prompt for chat backends."""
    prepare_egothink(write_source(data / "source", 1))
    folder = LMMS_EVAL_TASKS / "egothink"
    tasks = lmms_tasks("llava", folder).load_task_or_group([SHORT, PLANNING], "simple")
    short, plan = (
        tasks[name].doc_to_text(tasks[name].test_docs()[0]) for name in (SHORT, PLANNING)
    )
    assert short.startswith("You are a person in the situation shown in the image.")
    assert short.endswith("Keep your answer as short as possible!\nWhat is thing 1 of existence? ")
    assert "Answer the questions in a detailed and helpful way." in plan
    assert [
        tasks[name].config.generation_kwargs["max_new_tokens"] for name in (SHORT, PLANNING)
    ] == [30, 300]

    task = lmms_tasks("llava_hf", folder).load_task_or_group(PLANNING, "chat")[PLANNING]
    doc = task.test_docs()[0]
    system, user = task.doc_to_messages(doc)
    assert system["role"] == "system"
    assert system["content"][0]["text"].startswith(
        "You are a person in the situation shown in the image."
    )
    image, question = user["content"]
    assert (image["type"], question) == ("image", {"type": "text", "text": doc["question"]})
