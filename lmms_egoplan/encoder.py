"""Load the sentence encoder, which measures the similarity of texts."""

import os
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from lmms_egoplan.errors import LmmsEgoplanError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

ENCODER_VARIABLE = "LMMS_EGOPLAN_ENCODER"
DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

_LOADING = Lock()
_MODULES = "modules.json"
_TIMEOUT_S = 4
_NO_ENCODER = f"the folder has no {_MODULES}, which sentence-transformers writes for every encoder"
_NOT_FOUND = "not a folder, and the hub has no sentence encoder of this name or is unreachable"
_HOW = (
    f"Set {ENCODER_VARIABLE} to the folder of a local copy. To download one on a machine with "
    f"network access: hf download {DEFAULT_ENCODER} --local-dir all-MiniLM-L6-v2"
)


def encoder_name(name: str = DEFAULT_ENCODER) -> str:
    """Return the name of the encoder to use: ``LMMS_EGOPLAN_ENCODER`` if set, else `name`."""
    return os.environ.get(ENCODER_VARIABLE) or name


def load_encoder(name: str | None = None) -> "SentenceTransformer":
    """Load a sentence encoder, once per process and name.

    It runs on this process's GPU (see `default_device`).

    Args:
        name: a folder that sentence-transformers saved, or a name on the hub. None: see
            `encoder_name`.

    Raises:
        LmmsEgoplanError: the encoder does not exist, the hub is unreachable, the folder is
            incomplete, or it contains a plain language model, which sentence-transformers would
            accept.
    """
    with _LOADING:
        return _load(name or encoder_name())


@cache
def _load(name: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import is_sentence_transformer_model

    folder = Path(name).expanduser()
    is_folder = folder.is_dir()
    source = str(folder) if is_folder else name
    try:
        if not is_sentence_transformer_model(source):
            raise LmmsEgoplanError(_message(name, _NO_ENCODER if is_folder else _NOT_FOUND))
        encoder = SentenceTransformer(source, device=default_device())
        first, second = encoder.encode(["table", "cup"], show_progress_bar=False)
    except LmmsEgoplanError:
        raise
    except Exception as error:
        # A missing or truncated file may raise anything, such as TypeError or SafetensorError.
        raise LmmsEgoplanError(_message(name, f"{type(error).__name__}: {error}")) from error
    if not np.isfinite(first).all() or not np.isfinite(second).all() or np.allclose(first, second):
        raise LmmsEgoplanError(
            _message(name, "it encodes different words alike; weights or vocabulary are damaged")
        )
    return encoder


def check_files(name: str) -> None:
    """Check that an encoder's files exist, without loading it or its library.

    Raises:
        LmmsEgoplanError: the folder is no sentence encoder, or the hub's cache lacks it and the hub
            cannot be reached.
    """
    from huggingface_hub import hf_hub_download

    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / _MODULES).is_file():
            raise LmmsEgoplanError(_message(name, _NO_ENCODER))
        return
    try:
        hf_hub_download(name, _MODULES, etag_timeout=_TIMEOUT_S)
    except Exception as error:  # libraries raise many types of errors
        raise LmmsEgoplanError(_message(name, _NOT_FOUND)) from error


def _message(name: str, problem: str) -> str:
    problem = problem.strip()
    end = "" if problem.endswith((".", "?", "!")) else "."
    return f"sentence encoder {name} cannot be loaded: {problem}{end} {_HOW}"


def default_device() -> str:
    """Return this process's GPU, or ``cpu`` if there is none.

    ``LOCAL_RANK``, if set, selects one of several GPUs.
    """
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
