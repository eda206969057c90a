"""Train a tiny LLaVA on captions of rendered scenes.

python perf/demo/captions.py FOLDER SEED
"""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from recoloured import PAUSE_FRAMES, procedures, vary

from lmms_egoplan.benchmarks.egoplan.prompts import QUESTION as EGOPLAN_QUESTION
from lmms_egoplan.media.sampling import evenly_spaced

if TYPE_CHECKING:
    from transformers import LlavaProcessor

# The first question omits the goal: with it, a trial model guessed from the words and hardly used
# the images.
QUESTION = "What was done?"
PROGRESS_QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action did I take last in order to {goal}?"
)
NOTHING = "nothing"

_SIDE = 64
_PATCH = 16
_VISION = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
# Roughly the number of words, in addition to 256 bytes.
_VOCABULARY = 1024
_FRAMES = 8
# Number of updates with 64 captions of one frame, then with 16 captions of up to eight frames.
_UPDATES = (700, 250)


@dataclass(frozen=True, slots=True)
class Captioned:
    """Frames of a random world up to a moment between two steps.

    Attributes:
        frames: The frames.
        goal: The goal of the procedure.
        text: The step before the moment.
    """

    frames: list[Image.Image]
    goal: str
    text: str


def draw(generator: random.Random, num_frames: int = 1) -> Captioned:
    """Draw at most `num_frames` frames, evenly spaced over all steps so far.

    The last one shows the moment.
    """
    procedure = generator.choice([*procedures()])
    world = vary(procedure, generator, is_other_room=generator.random() < 0.5)
    following = generator.randrange(len(procedure.steps))
    moment = procedure.starts[following] - generator.randint(1, PAUSE_FRAMES)
    first = procedure.starts[0] if following else moment
    numbers = evenly_spaced(first, moment, min(num_frames, moment - first + 1))
    text = procedure.steps[following - 1] if following else NOTHING
    return Captioned([world.frame(number) for number in numbers], procedure.goal, text)


def train_on_captions(
    folder: Path, texts: Sequence[str], updates: tuple[int, int], seed: int
) -> None:
    """Write a checkpoint with about 300,000 parameters, trained on captions.

    All parameters are trained. The captions describe random worlds, each seen once.

    Args:
        folder: Folder of the checkpoint.
        texts: Texts that the tokenizer learns, in addition to the captions.
        updates: Number of updates with 64 captions of one frame, then with 16 captions of up to
            eight frames.
        seed: Random seed for weights and worlds.
    """
    from transformers import CLIPImageProcessor, Trainer, TrainingArguments, set_seed
    from transformers.utils.logging import disable_progress_bar

    from lmms_egoplan.demo.checkpoint import llava, llava_processor, train_tokenizer

    disable_progress_bar()
    set_seed(seed)
    size = {"height": _SIDE, "width": _SIDE}
    images = CLIPImageProcessor(size=size, do_center_crop=False)
    steps = (step for procedure in procedures() for step in procedure.steps)
    words = [QUESTION, PROGRESS_QUESTION, NOTHING, *steps, *texts]
    processor = llava_processor(
        images, train_tokenizer([f" {text}" for text in words], _VOCABULARY), _PATCH
    )
    model = llava(processor, _SIDE, _VISION)
    model.config.vision_feature_layer = -1  # LLaVA-1.5 skips the last of many layers.
    stages = ((64, 3e-3, 1, QUESTION), (16, 1.5e-3, _FRAMES, PROGRESS_QUESTION))
    for max_steps, (batch_size, learning_rate, most_frames, question) in zip(
        updates, stages, strict=True
    ):
        arguments = TrainingArguments(
            output_dir=str(folder),
            max_steps=max_steps,
            per_device_train_batch_size=batch_size,
            learning_rate=learning_rate,
            warmup_steps=max_steps // 10,
            seed=seed,
            lr_scheduler_type="cosine",
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            remove_unused_columns=False,
            dataloader_num_workers=1,
            dataloader_pin_memory=False,
            use_cpu=True,
        )
        collate = partial(_collate, processor, question, (1, most_frames), seed)
        Trainer(
            model, arguments, train_dataset=range(max_steps * batch_size), data_collator=collate
        ).train()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _collate(
    processor: "LlavaProcessor",
    question: str,
    num_frames: tuple[int, int],
    seed: int,
    indices: list[int],
) -> dict[str, Any]:
    """Create model inputs from captions of random worlds, drawn by their numbers.

    Only captions enter the loss.
    """
    generators = [random.Random(f"{seed} captions of {num_frames} {index}") for index in indices]
    captions = [draw(generator, generator.randint(*num_frames)) for generator in generators]
    answers = [f" {caption.text}{processor.tokenizer.eos_token}" for caption in captions]
    rows = [
        f"{_prompt(processor, question, caption)}{text}"
        for caption, text in zip(captions, answers, strict=True)
    ]
    images = [frame for caption in captions for frame in caption.frames]
    batch = processor(images=images, text=rows, padding=True, return_tensors="pt")
    labels = batch["input_ids"].clone().fill_(-100)
    for row, answer in enumerate(answers):  # Padding is on the left.
        count = len(processor.tokenizer(answer, add_special_tokens=False).input_ids)
        labels[row, -count:] = batch["input_ids"][row, -count:]
    return {**batch, "labels": labels}


def _prompt(processor: "LlavaProcessor", question: str, caption: Captioned) -> str:
    text = {"type": "text", "text": question.format(goal=caption.goal)}
    content = [*({"type": "image"} for _ in caption.frames), text]
    return processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )


if __name__ == "__main__":
    questions = [EGOPLAN_QUESTION.format(goal=procedure.goal) for procedure in procedures()]
    weights_seed = random.Random(int(sys.argv[2])).randrange(2**31)
    train_on_captions(Path(sys.argv[1]), questions, _UPDATES, weights_seed)
