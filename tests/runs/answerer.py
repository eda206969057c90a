"""Save checkpoints that give complete answers, although their weights are random."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from zoo import save


def save_answerer(name: str, folder: Path, answers: Sequence[str]) -> Path:
    """Save a checkpoint of a family that usually replies with one of the answers, depending on the
    input.

    Each answer is one token. Its embedding outweighs the output of the layers, and the next token
    is the end of text.
    """
    save(name, folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype="float32")
    processor = AutoProcessor.from_pretrained(folder)
    tokenizer = processor.tokenizer
    tokenizer.add_tokens(list(answers))
    ids = tokenizer.convert_tokens_to_ids(list(answers))
    model.resize_token_embeddings(max(len(tokenizer), model.get_input_embeddings().num_embeddings))
    embeddings, scores = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        direction = torch.nn.functional.normalize(
            torch.randn(embeddings.shape[1], generator=generator), dim=0
        )
        embeddings[ids] = 100 * direction
        rows = torch.nn.functional.normalize(
            torch.randn(len(ids), scores.shape[1], generator=generator)
        )
        scores[ids] = 6 * scores.norm(dim=1).mean() * rows
        scores[tokenizer.eos_token_id] = 3 * direction
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_attentive_answerer(folder: Path, answers: Sequence[str]) -> Path:
    """Save a checkpoint that accepts images.

    Its answers may differ between prompts with the same ending.
    """
    save_answerer("qwen2_5_vl", folder, answers)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype="float32")
    with torch.no_grad():
        for layer in model.model.language_model.layers:
            layer.self_attn.o_proj.weight *= 6
    model.save_pretrained(folder)
    return folder
