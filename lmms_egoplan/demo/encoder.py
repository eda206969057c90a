"""A sentence encoder of toy size: the mean of one random vector for each piece of a word."""

from pathlib import Path

from lmms_egoplan.demo.checkpoint import train_tokenizer

_SEED = 0
_DIMENSION = 64


def write_encoder(folder: Path) -> None:
    """Write an encoder that ``SentenceTransformer`` loads without a network; the same every time.

    Texts are similar as far as they share pieces of words.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        embedding = StaticEmbedding(train_tokenizer().backend_tokenizer, embedding_dim=_DIMENSION)
    SentenceTransformer(modules=[embedding], device="cpu").save(str(folder), create_model_card=False)
