"""Run any checkpoint that ``AutoModelForImageTextToText`` loads, including likelihoods after images."""

import itertools
from typing import Any

import torch
from accelerate import Accelerator
from PIL import Image
from tqdm import tqdm
from transformers import AutoModelForImageTextToText, AutoProcessor

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.api.registry import register_model
from lmms_eval.models.model_utils.candidate_ranker import CandidateRanker
from lmms_eval.models.model_utils.load_video import read_video

DEFAULT_NEW_TOKENS = 1024


@register_model("hf_vlm")
class HFVLM(lmms):
    """Vision-language models of transformers with a chat template.

    ``loglikelihood`` scores all candidates of a question together; images and question run once (`CandidateRanker`).

    Args:
        pretrained: name or folder of a checkpoint.
        dtype: ``auto`` (the checkpoint's), ``bfloat16``, ``float16`` or ``float32``.
        device: device of the model (default: this process's accelerator, or the CPU).
        device_map: passed to transformers; spreads a model over several devices.
        attn_implementation: passed to transformers; ``sdpa`` and ``eager`` allow the shared pass.
        max_num_frames: maximum number of frames from a video file; the model sees them as images.
        batch_size: must be 1, because generation and ranking process one question at a time.
        shared_context: allow one shared pass over the context for all candidates of a question.
    """

    is_simple = True

    def __init__(
        self,
        pretrained: str,
        dtype: str = "auto",
        device: str | None = None,
        device_map: str | None = None,
        attn_implementation: str | None = None,
        max_num_frames: int = 8,
        batch_size: int | str = 1,
        revision: str = "main",
        trust_remote_code: bool = False,
        shared_context: bool = True,
    ) -> None:
        super().__init__()
        if int(batch_size) != 1:
            raise ValueError(f"hf_vlm: batch_size must be 1, got {batch_size!r}")
        self.accelerator = Accelerator()
        self._rank, self._world_size = self.accelerator.process_index, self.accelerator.num_processes
        self._device = torch.device(device) if device and self._world_size == 1 else self.accelerator.device
        self._max_num_frames = int(max_num_frames)
        loading = {"revision": revision, "trust_remote_code": trust_remote_code}
        self._model = AutoModelForImageTextToText.from_pretrained(pretrained, dtype=dtype, device_map=device_map or {"": self._device}, attn_implementation=attn_implementation, **loading).eval()
        self._processor = AutoProcessor.from_pretrained(pretrained, **loading)
        self._ranker = CandidateRanker(self._model, self._processor, shared_context)

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def batch_size(self) -> int:
        return 1

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Return the mean token loss (lower is better) and the greedy flag of each continuation."""
        results = []
        questions = [list(group) for _, group in itertools.groupby(requests, key=lambda request: (*request.args[3:], request.args[0]))]
        for group in tqdm(questions, desc="Ranking", disable=self.rank != 0):
            context, _, doc_to_visual, doc_id, task, split = group[0].args
            doc = self.task_dict[task][split][doc_id]
            candidates = [request.args[1](doc) if callable(request.args[1]) else request.args[1] for request in group]
            results += self._ranker.score(self._messages(context, doc_to_visual(doc)), candidates, f"{task}/{doc_id}")
        return results

    @torch.inference_mode()
    def generate_until(self, requests: list[Instance]) -> list[GenerationResult]:
        """Generate an answer to each request, greedily unless its arguments ask for sampling."""
        results = []
        for request in tqdm(requests, desc="Generating", disable=self.rank != 0):
            context, arguments, doc_to_visual, doc_id, task, split = request.args
            messages = self._messages(context, doc_to_visual(self.task_dict[task][split][doc_id]))
            inputs = self._processor.apply_chat_template([messages], tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True)
            inputs = inputs.to(self._model.device, self._model.dtype)
            length = inputs["input_ids"].shape[1]
            generated = self._model.generate(**inputs, **_generation_arguments(arguments))[0, length:]
            text = self._processor.tokenizer.decode(generated, skip_special_tokens=True)
            until = arguments.get("until") or []
            for stop in filter(None, [until] if isinstance(until, str) else until):
                text = text.split(stop)[0]
            results.append(GenerationResult(text, TokenCounts(input_tokens=length, output_tokens=len(generated))))
        return results

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError("hf_vlm supports only single-turn requests")

    def _messages(self, text: str, visuals: Any) -> list[dict]:
        """Return the user's turn, with each image or video at its ``<image>``; if the numbers differ, media come before the text."""
        media = []
        for visual in visuals or []:
            if isinstance(visual, str):
                visual = [Image.fromarray(frame) for frame in read_video(visual, num_frm=self._max_num_frames)]
            images = visual if isinstance(visual, (list, tuple)) else [visual]
            if not all(isinstance(image, Image.Image) for image in images):
                raise TypeError(f"hf_vlm accepts images, lists of images and paths of videos, got {type(visual).__name__}")
            media.append([{"type": "image", "image": image.convert("RGB")} for image in images])
        pieces = text.split("<image>")
        if len(pieces) != len(media) + 1:
            pieces = [*[""] * len(media), text]
        content = [{"type": "text", "text": pieces[0]}]
        for images, piece in zip(media, pieces[1:]):
            content += [*images, {"type": "text", "text": piece}]
        return [{"role": "user", "content": [item for item in content if item.get("text") != ""]}]


def _generation_arguments(arguments: dict) -> dict:
    """Convert the task's arguments for ``generate``; sampling requires a temperature above 0."""
    temperature = arguments.get("temperature") or 0
    generation = {"max_new_tokens": arguments.get("max_new_tokens", DEFAULT_NEW_TOKENS), "num_beams": arguments.get("num_beams", 1)}
    if not arguments.get("do_sample", temperature > 0) or temperature == 0:
        return {**generation, "do_sample": False}
    return {**generation, "do_sample": True, "temperature": temperature, "top_p": arguments.get("top_p", 1.0)}
