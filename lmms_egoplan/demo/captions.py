"""A LLaVA of toy size, trained whole on captions of rendered scenes."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from lmms_egoplan.demo.checkpoint import llava, llava_processor, train_tokenizer
from lmms_egoplan.demo.scenes import PAUSE_FRAMES, SCENES
from lmms_egoplan.demo.worlds import vary

if TYPE_CHECKING:
    from transformers import LlavaProcessor

QUESTION = "What was done last in order to {goal}?"
NOTHING = "nothing"

_SIDE, _PATCH = 64, 16
_VISION = {"hidden_size": 64, "num_hidden_layers": 3}
# About as many as there are words, beside 256 bytes.
_VOCABULARY = 1024
_BATCH, _LEARNING_RATE = 64, 3e-3


def draw(generator: random.Random) -> tuple[Image.Image, str, str]:
    """A frame of a random world between two steps, a question about it, and the step before it."""
    scene = vary(generator.choice(SCENES), generator, is_other_room=generator.random() < 0.5)
    following = generator.randrange(len(scene.steps))
    number = scene.span(following)[0] - generator.randint(1, PAUSE_FRAMES)
    answer = scene.steps[following - 1].narration if following else NOTHING
    return scene.frame(number), QUESTION.format(goal=scene.goal), answer


def train_on_captions(folder: Path, texts: Sequence[str], steps: int, seed: int) -> None:
    """Write a checkpoint: about 300,000 parameters, all trained on captions of frames of random worlds, each seen once.

    Args:
        texts: that the tokenizer learns its words from, beside the captions.
        steps: updates of 64 captions.
        seed: of weights and worlds.
    """
    from transformers import CLIPImageProcessor, Trainer, TrainingArguments, set_seed
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    set_seed(seed)
    size = {"height": _SIDE, "width": _SIDE}
    images = CLIPImageProcessor(size=size, do_center_crop=False)
    questions = [QUESTION.format(goal=scene.goal) for scene in SCENES]
    words = [NOTHING, *(step.narration for scene in SCENES for step in scene.steps), *questions, *texts]
    processor = llava_processor(images, train_tokenizer([f" {text}" for text in words], _VOCABULARY), _PATCH)
    model = llava(processor, _SIDE, _VISION)
    model.config.vision_feature_layer = -1  # LLaVA-1.5 leaves the last of many layers out

    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=_BATCH,
        learning_rate=_LEARNING_RATE,
        lr_scheduler_type="cosine",
        warmup_steps=steps // 10,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        remove_unused_columns=False,
        dataloader_num_workers=1,
        dataloader_pin_memory=False,
        use_cpu=True,
        seed=seed,
    )
    Trainer(model, arguments, train_dataset=_Captions(steps * _BATCH, seed), data_collator=_Collator(processor)).train()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


class _Captions:
    """Frames of random worlds with their captions, drawn when asked for."""

    def __init__(self, length: int, seed: int) -> None:
        self._length = length
        self._seed = seed

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Image.Image, str, str]:
        return draw(random.Random(f"{self._seed} caption {index}"))


class _Collator:
    """Model inputs of captions; the loss is over the captions alone."""

    def __init__(self, processor: "LlavaProcessor") -> None:
        self._processor = processor

    def __call__(self, captions: list[tuple[Image.Image, str, str]]) -> dict[str, Any]:
        images, questions, texts = zip(*captions, strict=True)
        answers = [f" {text}{self._processor.tokenizer.eos_token}" for text in texts]
        rows = [f"{self._prompt(question)}{answer}" for question, answer in zip(questions, answers, strict=True)]
        batch = self._processor(images=list(images), text=rows, padding=True, return_tensors="pt")
        labels = batch["input_ids"].clone().fill_(-100)
        for row, answer in enumerate(answers):  # padding is on the left
            count = len(self._processor.tokenizer(answer, add_special_tokens=False).input_ids)
            labels[row, -count:] = batch["input_ids"][row, -count:]
        return {**batch, "labels": labels}

    def _prompt(self, question: str) -> str:
        asked = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}
        return self._processor.apply_chat_template([asked], add_generation_prompt=True)
