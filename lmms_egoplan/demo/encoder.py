"""A sentence encoder of toy size: the mean of one random vector for each piece of a word."""

import json
from pathlib import Path

from lmms_egoplan.demo.checkpoint import train_tokenizer

_SEED = 0
_DIMENSION = 64
_MODULE = "sentence_transformers.sentence_transformer.modules.static_embedding.StaticEmbedding"


def write_encoder(folder: Path) -> None:
    """Write an encoder that ``SentenceTransformer`` loads without a network; the same every time.

    Texts are similar as far as they share pieces of words. The files are those of a saved ``StaticEmbedding``; they
    are written without sentence-transformers, as its import alone takes several seconds.
    """
    import torch
    from safetensors.torch import save_file

    tokenizer = train_tokenizer().backend_tokenizer
    weights = torch.randn(tokenizer.get_vocab_size(), _DIMENSION, generator=torch.Generator().manual_seed(_SEED))
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": _MODULE}]))
