"""A LLaVA of toy size, trained whole on captions of rendered scenes."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.demo.checkpoint import llava, llava_processor, train_tokenizer
from lmms_egoplan.demo.scenes import SCENES
from lmms_egoplan.demo.worlds import vary

QUESTION = "What has been done last?"
NOTHING = "nothing yet"

_SIDE, _PATCH = 64, 16
_VISION = {"hidden_size": 64, "num_hidden_layers": 4}
# About as many as there are words, beside 256 bytes.
_VOCABULARY = 1024
_BATCH, _LEARNING_RATE = 64, 3e-3


def draw(generator: random.Random) -> tuple[Image.Image, str]:
    """A frame of a random world, and the last step that has changed something by then."""
    scene = vary(generator.choice(SCENES), generator, is_other_room=generator.random() < 0.5)
    number = generator.randrange(scene.span(len(scene.steps) - 1)[1])
    done = [step.narration for place, step in enumerate(scene.steps) if scene.first_change(place) <= number]
    return scene.frame(number), done[-1] if done else NOTHING


def train_on_captions(folder: Path, texts: Sequence[str], steps: int, seed: int) -> None:
    """Write a checkpoint: about 300,000 parameters, all trained on captions of frames of random worlds, each seen once.

    Args:
        texts: that the tokenizer learns its words from, beside the captions.
        steps: updates of 64 captions.
        seed: of weights and worlds.
    """
    import torch
    from transformers import CLIPImageProcessor, Trainer, TrainingArguments, set_seed
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    set_seed(seed)
    size = {"height": _SIDE, "width": _SIDE}
    images = CLIPImageProcessor(size=size, do_center_crop=False)
    words = [QUESTION, NOTHING, *(step.narration for scene in SCENES for step in scene.steps), *texts]
    processor = llava_processor(images, train_tokenizer([f" {text}" for text in words], _VOCABULARY), _PATCH)
    model = llava(processor, _SIDE, _VISION)

    def collate(captions: list[tuple[Image.Image, str]]) -> dict[str, Any]:
        messages = [
            [
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]},
                {"role": "assistant", "content": [{"type": "text", "text": text}]},
            ]
            for _, text in captions
        ]
        prompts = [processor.apply_chat_template(dialogue) for dialogue in messages]
        batch = processor(images=[image for image, _ in captions], text=prompts, padding=True, return_tensors="pt")
        labels = torch.full_like(batch["input_ids"], -100)
        for row, (_, text) in enumerate(captions):  # padding is on the left
            count = len(processor.tokenizer(f" {text}</s>", add_special_tokens=False).input_ids)
            labels[row, -count:] = batch["input_ids"][row, -count:]
        return {**batch, "labels": labels}

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
    Trainer(model, arguments, train_dataset=_Captions(steps * _BATCH, seed), data_collator=collate).train()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


class _Captions:
    """Frames of random worlds with their captions, drawn when asked for."""

    def __init__(self, length: int, seed: int) -> None:
        self._length = length
        self._seed = seed

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Image.Image, str]:
        return draw(random.Random(f"{self._seed} caption {index}"))
