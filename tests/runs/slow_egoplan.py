"""Evaluate EgoPlan in a slow and obvious way: decode every frame, and run a separate pass for each
candidate.
"""

import json
import math
from collections.abc import Collection
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import av
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.video_utils import VideoMetadata

from runs.harness import Run, reported

LETTERS = "ABCD"
SOURCE_FPS = {"EpicKitchens": 60, "Ego4D": 30}
Record = dict[str, Any]


class Choice(NamedTuple):
    """A candidate's text, the sum of its tokens' log-probabilities, and their number."""

    text: str
    logprob: float
    num_tokens: int


class SlowEgoPlan:
    """One model on one annotation file."""

    LIST = "EgoPlan_validation"
    MOST_TOKENS = 16

    def __init__(self, checkpoint: Path, media: Path) -> None:
        self.model = AutoModelForImageTextToText.from_pretrained(
            checkpoint, dtype=torch.float32
        ).eval()
        self.processor = AutoProcessor.from_pretrained(checkpoint)
        self.media = media
        annotations = json.loads((media / "annotations.json").read_text(encoding="utf-8"))
        self.records: list[Record] = annotations[self.LIST]

    def uniform(self, record: Record, count: int = 8) -> list[dict[str, Any]]:
        """Return the media of the default layout: frames from the whole task progress."""
        last = record["current_observation_frame"]
        past = record["task_progress_metadata"]
        first = min((action["start_frame"] for action in past), default=last)
        return [
            _image(self._frame(record, n))
            for n in _spread(first, last, min(count, last - first + 1))
        ]

    def clips(self, record: Record, clips: int = 4, per_clip: int = 8) -> list[dict[str, Any]]:
        """Return the media of the clips layout: a video for each of the last actions, and the
        observation.
        """
        last = record["current_observation_frame"]
        media = []
        for action in record["task_progress_metadata"][-clips:]:
            numbers = _spread(action["start_frame"], min(action["stop_frame"], last), per_clip)
            frames = [self._frame(record, number) for number in numbers]
            seconds = max(1, numbers[-1] - numbers[0]) / SOURCE_FPS[record["video_source"]]
            video = {"type": "video", "video": frames, "fps": (per_clip - 1) / seconds}
            media.append(video if per_clip > 1 else _image(frames[0]))
        return [*media, _image(self._frame(record, last))]

    @torch.no_grad()
    def rank(self, record: Record, media: list[dict[str, Any]]) -> list[Choice]:
        choices = []
        for letter in LETTERS.lower():
            text = record[f"choice_{letter}"]
            inputs = self._inputs(
                media,
                record["question"],
                [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
                continue_final_message=True,
            )
            ids = inputs["input_ids"][0]
            length = 1
            while text not in self.processor.tokenizer.decode(ids[-length:]):
                length += 1
            self._forget_positions()
            logprobs = self.model(**inputs).logits[0].double().log_softmax(-1)
            positions = range(len(ids) - length, len(ids))
            choices.append(
                Choice(text, math.fsum(logprobs[i - 1, ids[i]].item() for i in positions), length)
            )
        return choices

    @torch.no_grad()
    def reply(self, record: Record, media: list[dict[str, Any]]) -> str:
        inputs = self._inputs(media, self.prompt(record), [], add_generation_prompt=True)
        self._forget_positions()
        output = self.model.generate(**inputs, do_sample=False, max_new_tokens=self.MOST_TOKENS)[0]
        answer = output[inputs["input_ids"].shape[1] :]
        return self.processor.tokenizer.decode(answer, skip_special_tokens=True)

    def prompt(self, record: Record) -> str:
        lines = [record["question"]]
        lines += [f"{letter}. {record[f'choice_{letter.lower()}']}" for letter in LETTERS]
        return "\n".join(
            [*lines, "Reply with nothing but the letter of the action to take: A, B, C or D."]
        )

    def _inputs(
        self, media: list[dict[str, Any]], text: str, answer: list[Any], **how: bool
    ) -> Any:
        videos = [
            VideoMetadata(
                total_num_frames=len(item["video"]),
                fps=item["fps"],
                frames_indices=[*range(len(item["video"]))],
            )
            for item in media
            if item["type"] == "video"
        ]
        media = [{name: value for name, value in item.items() if name != "fps"} for item in media]
        question = {"role": "user", "content": [*media, {"type": "text", "text": text}]}
        return self.processor.apply_chat_template(
            [question, *answer],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"do_sample_frames": False, "video_metadata": videos}
            if videos
            else {},
            **how,
        )

    def _forget_positions(self) -> None:
        """Delete the last prompt's positions, which Qwen-VL models store."""
        for module in self.model.modules():
            if hasattr(module, "rope_deltas"):
                module.rope_deltas = None

    def _frame(self, record: Record, number: int) -> Image.Image:
        if record["video_source"] == "Ego4D":
            return _all_frames(self.media / "ego4d" / f"{record['video_id']}.mp4")[number]
        folder = record["video_id"].split("_")[0]
        name = f"frame_{str(number).zfill(10)}.jpg"
        return _photograph(
            self.media / "epic-kitchens" / folder / "rgb_frames" / record["video_id"] / name
        )


def accuracies(records: list[Record], ranked: list[list[Choice]]) -> dict[str, float]:
    """Return the metrics of `egoplan_val`, and the number of ties."""
    scores = {
        "acc": [[choice.logprob / choice.num_tokens for choice in choices] for choices in ranked],
        "acc_sum": [[choice.logprob for choice in choices] for choices in ranked],
        "acc_bytes": [[c.logprob / len(c.text.encode()) for c in choices] for choices in ranked],
    }
    right = {
        name: [
            max(range(4), key=question.__getitem__) == LETTERS.index(record["golden_choice_idx"])
            for record, question in zip(records, questions, strict=True)
        ]
        for name, questions in scores.items()
    }
    ties = sum(question.count(max(question)) > 1 for question in scores["acc"])
    means = {name: sum(values) / len(records) for name, values in right.items()}
    return means | _by_source(records, right["acc"]) | {"ties": ties, "coverage": 1.0}


def reply_accuracies(records: list[Record], replies: list[str]) -> dict[str, float]:
    """Return the metrics of `egoplan_val_generate`.

    A readable reply contains only a letter, perhaps in quotes.
    """
    letters = [_lone_letter(reply) for reply in replies]
    right = [
        letter == record["golden_choice_idx"]
        for record, letter in zip(records, letters, strict=True)
    ]
    means = {"acc": sum(right) / len(right), "unparsed": letters.count(None) / len(letters)}
    return means | _by_source(records, right) | {"coverage": 1.0}


def _lone_letter(reply: str) -> str | None:
    text = reply.strip().strip("'\"`*")
    return text if len(text) == 1 and text in LETTERS else None


def _by_source(records: list[Record], right: list[bool]) -> dict[str, float]:
    means = {}
    for source, name in (("EpicKitchens", "acc_epic_kitchens"), ("Ego4D", "acc_ego4d")):
        source_right = [
            r for record, r in zip(records, right, strict=True) if record["video_source"] == source
        ]
        means[name] = sum(source_right) / len(source_right)
    return means


def _spread(first: int, last: int, count: int) -> list[int]:
    if count == 1:
        return [last]
    step = Fraction(last - first, count - 1)
    return [math.floor(first + step * i + Fraction(1, 2)) for i in range(count)]


def _image(image: Image.Image) -> dict[str, Any]:
    return {"type": "image", "image": image}


@cache
def _all_frames(path: Path) -> list[Image.Image]:
    with av.open(path) as container:
        return [frame.to_image() for frame in container.decode(video=0)]


@cache
def _photograph(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def logged(run: Run, task: str) -> dict[Any, dict[str, Any]]:
    """Return a run's logged predictions, by sample ID, if there is one for each question."""
    predictions = [sample["details"]["predictions"] for sample in run.samples[task]]
    by_id = {prediction["sample_id"]: prediction for prediction in predictions}
    assert len(by_id) == len(predictions) > 0
    return by_id


def choices_in(run: Run, task: str, records: list[Record]) -> list[list[Choice]]:
    by_id = logged(run, task)
    return [
        [
            Choice(record[f"choice_{letter}"], choice["logprob"], choice["num_tokens"])
            for letter, choice in zip("abcd", by_id[record["sample_id"]]["choices"], strict=True)
        ]
        for record in records
    ]


def assert_same_ranking(
    run: Run,
    task: str,
    ranked: list[list[Choice]],
    records: list[Record],
    unscored: Collection[int] = (),
) -> None:
    """Compare a run's likelihoods and predictions with those of the slow evaluation.

    Args:
        unscored: Sample ids of questions that have likelihoods, but no prediction.
    """
    by_id = logged(run, task)
    for record, choices in zip(records, ranked, strict=True):
        prediction = by_id[record["sample_id"]]
        for choice, expected in zip(prediction["choices"], choices, strict=True):
            assert choice["num_tokens"] == expected.num_tokens
            mean = expected.logprob / expected.num_tokens
            assert choice["logprob"] / choice["num_tokens"] == pytest.approx(mean, abs=1e-4)
            assert choice["loss"] == pytest.approx(-mean, abs=1e-4)
        means = [choice.logprob / choice.num_tokens for choice in choices]
        letter = None if record["sample_id"] in unscored else LETTERS[means.index(max(means))]
        assert prediction["prediction"] == letter


def assert_same_replies(run: Run, task: str, replies: list[str], records: list[Record]) -> None:
    samples = {
        sample["details"]["predictions"]["sample_id"]: sample["filtered_resps"]
        for sample in run.samples[task]
    }
    written = [samples[record["sample_id"]] for record in records]
    texts = [(text if isinstance(text, str) else text[0]).strip() for text in written]
    assert texts == [reply.strip() for reply in replies]


def assert_reports(run: Run, task: str, expected: dict[str, float], questions: int) -> None:
    for name, value in expected.items():
        assert reported(run, task, name) == pytest.approx(value, abs=1e-12), name
    assert run.details[task]["num_questions"] == run.details[task]["split_size"] == questions
