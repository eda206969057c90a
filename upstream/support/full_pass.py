"""Reference scores with a full pass per candidate, as a backend of lmms-eval and as a program."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor


class Reference:
    """Scores from a checkpoint on the CPU, in float32.

    Args:
        weights: Precision of the weights, before they are converted to float32.
    """

    def __init__(self, pretrained: str | Path, weights: torch.dtype = torch.float32) -> None:
        self.model = (
            AutoModelForImageTextToText.from_pretrained(pretrained, dtype=weights).float().eval()
        )
        self.processor = AutoProcessor.from_pretrained(pretrained)

    @torch.inference_mode()
    def score(
        self, images: Sequence[Image.Image], question: str, candidate: str
    ) -> tuple[float, bool, int]:
        """Score a candidate after images and question.

        Returns:
            Its mean loss, whether it is the greedy answer, and its number of tokens.
        """
        content = [
            *({"type": "image", "image": image} for image in images),
            {"type": "text", "text": question},
        ]
        messages = [{"role": "user", "content": content}]
        turn = {"role": "assistant", "content": [{"type": "text", "text": candidate}]}
        inputs = self.processor.apply_chat_template(
            [[*messages, turn]],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            continue_final_message=True,
        )
        text = self.processor.apply_chat_template(
            [*messages, turn], tokenize=False, continue_final_message=True
        )
        return self._score(inputs, text, candidate)

    @torch.inference_mode()
    def score_text(
        self, images: Sequence[Image.Image], prompt: str, candidate: str
    ) -> tuple[float, bool, int]:
        """Score a candidate after an already rendered prompt; returns the same as `score`."""
        inputs = self.processor(text=prompt + candidate, images=list(images), return_tensors="pt")
        return self._score(inputs, prompt + candidate, candidate)

    def _score(self, inputs: Any, text: str, candidate: str) -> tuple[float, bool, int]:
        # The candidate's tokens are the last ones. The first may also cover the space before the
        # candidate.
        encoded = self.processor.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        )
        start = len(text) - len(candidate)
        count = sum(end > max(begin, start) for begin, end in encoded["offset_mapping"])
        ids = inputs["input_ids"][0, -count:]
        logits = self.model(**inputs).logits[0, -count - 1 : -1]
        losses = -logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        return float(losses.mean()), bool((logits.argmax(-1) == ids).all()), count


class FullPass(lmms):
    """`Reference` as a backend; an entry point registers it."""

    def __init__(self, pretrained: str, batch_size: int = 1, **_: Any) -> None:
        super().__init__()
        self.reference = Reference(pretrained)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        results = []
        for context, continuation, doc_to_visual, doc_id, task, split in (
            request.args for request in requests
        ):
            images = doc_to_visual(self.task_dict[task][split][doc_id])
            results.append(self.reference.score(images, context, continuation.strip())[:2])
        return results

    def generate_until(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError


def manifests() -> Any:
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest("full_pass", simple_class_path="full_pass.FullPass")


if __name__ == "__main__":  # full_pass.py CHECKPOINT[:bfloat16] FILE ...
    pretrained, _, weights = sys.argv[1].partition(":")
    reference = Reference(pretrained, getattr(torch, weights or "float32"))
    for file in sys.argv[2:]:
        scores = []
        for row in json.loads(Path(file).read_text()):
            images = [
                Image.open(path).convert("RGB")
                for path in row.get("images", [row.get("image")])
                if path
            ]
            score, context = reference.score, row.get("question")
            if "prompt" in row:
                score, context = reference.score_text, row["prompt"]
            scores.append([score(images, context, choice) for choice in row["choices"]])
        print(json.dumps(scores))
