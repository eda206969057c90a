"""A BERT encoder of two small layers with random weights, in a published checkpoint's format."""

import string

from lmms_egoplan.benchmarks.actplan.classifier import load_weights


def write_encoder(folder, positions=512, hidden_size=32):
    """Write weights and a tokenizer of single characters, and return the folder."""
    from transformers import BertConfig, BertModel, BertTokenizer, set_seed

    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *characters,
        *(f"##{sign}" for sign in characters),
    ]
    set_seed(7)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=hidden_size,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}).save_pretrained(
        folder
    )
    return folder


def write_classifier(folder, encoder, max_length=512):
    """Write a classifier of plans with an untrained head on an encoder, and return the folder."""
    from transformers import AutoConfig, AutoTokenizer, set_seed

    config = AutoConfig.from_pretrained(encoder)
    config.update({"max_pair_length": max_length, "positives": "mixed", "shuffled": "instance"})
    set_seed(0)
    load_weights(encoder, config)[0].save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder
