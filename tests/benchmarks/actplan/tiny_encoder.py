"""A BERT encoder of two small layers with random weights, in the form of a published checkpoint."""

import string

from transformers import BertConfig, BertModel, BertTokenizer, set_seed

from lmms_egoplan.training.bleurt.network import new_model


def write_encoder(folder, positions=512, hidden_size=32):
    """Weights and tokenizer, whose words are single characters; the folder."""
    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{each}" for each in characters)]
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
    BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}).save_pretrained(folder)
    return folder


def write_classifier(folder, encoder, seed=0, max_length=512):
    """A classifier of plans on an encoder, as untrained as its head; the folder."""
    new = new_model(str(encoder), max_length, seed)
    new.model.config.update({"positives": "mixed", "shuffled": "instance"})
    new.model.save_pretrained(folder)
    new.tokenizer.save_pretrained(folder)
    return folder
