"""Prepare at least 200 questions from real annotations, and save checkpoints that answer them."""

import json
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

from benchmarks.egoplan.derived_questions import DATA, derive, render_media
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from zoo import save

DERIVED = 210
EXAMPLES = DATA / "egoplan" / "examples.json"
# ID of EgoPlan-Val's published record, above the IDs of derived questions.
EXAMPLE_ID = 1000


def prepare_set(folder: Path) -> None:
    """Prepare the validation split in `folder`, which ``LMMS_EGOPLAN_DATA`` must name."""
    (example,) = json.loads(EXAMPLES.read_text(encoding="utf-8"))["EgoPlan_validation"]
    rendered = render_media(
        [*derive(DERIVED), example | {"sample_id": EXAMPLE_ID}], folder / "media"
    )
    prepare_egoplan(
        rendered.annotations,
        "val",
        Media({"EpicKitchens": rendered.epic_kitchens, "Ego4D": rendered.ego4d}),
    )


def save_letter_lover(name: str, folder: Path) -> Path:
    """Save a checkpoint that often answers with one letter.

    The letters' scores are scaled up. A letter's embedding outweighs the output of the layers, and
    the next token is the end of text.
    """
    save(name, folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    letters = tokenizer.convert_tokens_to_ids(list("ABCD"))
    embeddings, scores = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    assert embeddings is not scores
    with torch.no_grad():
        direction = embeddings[letters[0]] / embeddings[letters[0]].norm()
        embeddings[letters] += 100 * direction
        scores[letters] *= 4
        scores[tokenizer.eos_token_id] = 3 * direction
    model.save_pretrained(folder)
    return folder
