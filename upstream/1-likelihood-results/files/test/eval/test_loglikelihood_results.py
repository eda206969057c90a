"""Test that likelihoods reach the scoring of ``multiple_choice`` tasks, with and without images."""

from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from PIL import Image

from lmms_eval.api import instance
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager

CHOICES = ["red", "green", "a clear blue"]
COLORS = [(200, 10, 10), (10, 200, 10), (10, 10, 200)]

TASK = """
task: {name}
dataset_path: {data}
dataset_kwargs:
  load_from_disk: true
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_visual: !function utils.{visuals}
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - metric: acc
  - metric: acc_norm
"""

UTILS = """
from PIL import Image


def images(doc):
    return [Image.open(doc["image"])]


def nothing(doc):
    return []
"""


class ColorModel(lmms):
    """Model that ranks the color in the image or text first; per character, it prefers long choices."""

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        results = []
        for context, continuation, doc_to_visual, doc_id, task, split in (request.args for request in requests):
            images = doc_to_visual(self.task_dict[task][split][doc_id])
            if images:
                pixel = images[0].convert("RGB").getpixel((0, 0))
                color = pixel.index(max(pixel))
            else:
                color = int(context.split()[-1])
            is_match = CHOICES.index(continuation.strip()) == color
            results.append((1.0 if is_match else 2.0, is_match))
        return results

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError


@pytest.fixture
def tasks(tmp_path: Path) -> TaskManager:
    rows = []
    for number in range(6):
        image = tmp_path / f"{number}.png"
        Image.new("RGB", (8, 8), COLORS[number % 3]).save(image)
        # The last document's gold answer differs from its color.
        gold = (number + (number == 5)) % 3
        rows.append({"question": f"Which color is it? {number % 3}", "choices": CHOICES, "gold": gold, "image": str(image)})
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(tmp_path / "data")
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "utils.py").write_text(UTILS)
    for name, visuals in (("image_choice", "images"), ("text_choice", "nothing")):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, data=tmp_path / "data", visuals=visuals))
    return TaskManager(include_path=str(folder), include_defaults=False)


@pytest.mark.parametrize("name", ["image_choice", "text_choice"])
def test_multiple_choice_task_is_scored(name: str, tasks: TaskManager) -> None:
    evaluated = simple_evaluate(ColorModel(), tasks=[name], task_manager=tasks, log_samples=True)
    results = evaluated["results"][name]
    assert results["acc,none"] == pytest.approx(5 / 6)
    # Per character, the longest choice always has the lowest loss: 2/12 or 1/12, against at least 1/5.
    assert results["acc_norm,none"] == pytest.approx(1 / 6)
    assert [sample["filtered_resps"][0] for sample in evaluated["samples"][name]] == [
        (1.0, True),
        (2.0, False),
        (2.0, False),
    ] * 2


@pytest.mark.parametrize("pair", [(0.5, True), [0.5, True]])
def test_likelihood_stays_a_pair(pair) -> None:
    assert instance.unwrap_generation_output(pair, "loglikelihood") == (pair, None)


def test_wrapped_likelihood_is_unwrapped() -> None:
    counts = TokenCounts(output_tokens=3)
    assert instance.unwrap_generation_output(GenerationResult((0.5, True), counts), "loglikelihood") == ((0.5, True), counts)


@pytest.mark.parametrize("request_type", ["generate_until", "generate_until_multi_round"])
def test_generated_text_is_unwrapped(request_type: str) -> None:
    assert instance.unwrap_generation_output(42, request_type) == ("42", None)
    assert instance.unwrap_generation_output(["first", "second"], request_type) == (["first", "second"], None)
