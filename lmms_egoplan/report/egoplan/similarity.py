"""Measure the similarity of EgoPlan-Bench's goals and right answers (sec. 4.2, Fig. 7)."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from loguru import logger

from lmms_egoplan.encoder import default_device, encoder_name, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, write_whole
from lmms_egoplan.jsonl import decode
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.paths import data_root
from lmms_egoplan.report.scores import Key

LEVELS = ("low", "middle", "high")

# The layer whose tokens are compared, by kind and depth of the model: the best one according to
# BERTScore's authors.
_LAYERS = {
    ("bert", 12): 9,
    ("bert", 24): 18,
    ("roberta", 12): 10,
    ("roberta", 24): 17,
    ("distilbert", 6): 5,
}
_BATCH = 64
_MAX_TOKENS = 512
_DECIMALS = 6

Pair = tuple[str, str]
Tokens = tuple[np.ndarray, np.ndarray]
Question = TypeVar("Question", bound=Hashable)


def similarities(
    pairs: Iterable[Pair], encoder: str | None = None
) -> tuple[dict[Pair, float], str]:
    """Measure the similarity of the two texts of each pair.

    Values are cached below the prepared data (``egoplan/similarity``). If the encoder is a folder,
    they are reused while its files are unchanged.

    Args:
        pairs: Pairs of goal and answer.
        encoder: A BERT-like model for BERTScore: a folder, or a name on the hub. BERTScore is the
            F1 of greedy matching of token embeddings by cosine (Zhang et al. 2020), without idf
            weights and baseline. As in the authors' program, special tokens can be matched but have
            no weight. None: cosine of the sentence embeddings of ActPlan's encoder
            (``LMMS_EGOPLAN_ENCODER``).

    Returns:
        The similarity by goal and answer, at most 1; and the method and model that computed the
        values.

    Raises:
        LmmsEgoplanError: The sentence encoder, or the model for BERTScore, cannot be loaded.
    """
    distinct_pairs = sorted(set(pairs))
    if encoder is None:
        name = encoder_name()
        measure_pairs = _cosines_in_process
        identity = f"cosine {name} {_version(name)}"
    else:
        name = encoder
        measure_pairs = _bert_scores
        identity = f"BERTScore {name} {_version(name)}"
    file_name = f"{sha256(identity.encode()).hexdigest()[:16]}.json"
    path = data_root() / "egoplan" / "similarity" / file_name
    measure, values = _read_cache(path)
    missing = [pair for pair in distinct_pairs if pair not in values]
    if missing:
        measure, computed = measure_pairs(missing, name)
        for pair, value in zip(missing, computed, strict=True):
            values[pair] = round(value, _DECIMALS)
        _write_cache(path, measure, values)
    return {pair: values[pair] for pair in distinct_pairs}, measure


def levels(values: Mapping[Question, float]) -> dict[Question, int]:
    """Return the index of each question's level in `LEVELS`. Equal values are ordered by question.

    The levels have equal sizes. If the number of questions is not divisible by three, the sizes
    differ by one.
    """
    order = sorted(values, key=lambda question: (values[question], question))
    return {
        question: position * len(LEVELS) // len(order) for position, question in enumerate(order)
    }


def _version(name: str) -> str:
    """Return a text that changes with the files in a folder.

    It is empty for a name on the hub.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return " ".join(f"{path.relative_to(folder)}:{file_version(path.stat())}" for path in files)


def _read_cache(path: Path) -> tuple[str, dict[Pair, float]]:
    try:
        content = decode(path.read_text(encoding="utf-8"))
        values = {(goal, answer): float(value) for goal, answer, value in content["values"]}
        if not all(map(math.isfinite, values.values())):
            raise ValueError("a value is not finite")
        return str(content["measure"]), values
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError, TypeError, KeyError) as error:
        logger.debug(
            f"{path}: cache ignored, similarities are computed again: "
            f"{type(error).__name__}: {error}"
        )
        return "", {}


def _write_cache(path: Path, measure: str, values: Mapping[Pair, float]) -> None:
    content = {
        "measure": measure,
        "values": [[*pair, value] for pair, value in sorted(values.items())],
    }
    try:
        write_whole(path, json.dumps(content, ensure_ascii=False))
    except OSError as error:
        # Shared prepared data may be read-only. Then the next report computes the values again.
        logger.debug(f"{path}: similarities are not cached: {error}")


def _cosines_in_process(pairs: Sequence[Pair], name: str) -> tuple[str, list[float]]:
    """Call `_cosines` in a separate process, as sentence-transformers takes about 1 GiB.

    Use the current process if sentence-transformers is already loaded here, or if the separate
    process fails.
    """
    if "sentence_transformers" not in sys.modules:
        # In a new session, Ctrl-C in a terminal does not reach the process; `subprocess.run` kills
        # it.
        function = _compute.__name__
        command = [sys.executable, "-c", f"from {__name__} import {function}; {function}()"]
        try:
            process = subprocess.run(
                command,
                input=json.dumps([pairs, name]),
                capture_output=True,
                text=True,
                start_new_session=True,
            )
            measure, values = json.loads(process.stdout.rpartition("\n")[2])
            return measure, values
        except (OSError, ValueError) as error:
            logger.debug(f"the process that compares texts failed; comparing them here: {error}")
    return _cosines(pairs, name)


def _compute() -> None:
    """Read pairs and the name of an encoder from standard input, and write their `_cosines`.

    The result is the last line of the output.
    """
    # transformers would import these, which takes a third of this process's time. If an encoder
    # needs one of them, this process fails, and the caller encodes instead.
    sys.modules |= dict.fromkeys(("timm", "wandb"))  # type: ignore[arg-type]
    pairs, name = json.load(sys.stdin)
    print("\n" + json.dumps(_cosines([tuple(pair) for pair in pairs], name)), end="", flush=True)
    os._exit(0)  # Unloading torch's modules one by one would need another 100 MiB.


def _cosines(pairs: Sequence[Pair], name: str) -> tuple[str, list[float]]:
    texts = _texts(pairs)
    encoded = load_encoder(name).encode(
        texts, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
    )
    vectors = dict(zip(texts, encoded, strict=True))
    measure = f"cosine of the sentence embeddings of {_short_name(name)}"
    return measure, [
        float(vectors[goal].astype(float) @ vectors[answer].astype(float)) for goal, answer in pairs
    ]


def _bert_scores(pairs: Sequence[Pair], name: str) -> tuple[str, list[float]]:
    from transformers import AutoModel, AutoTokenizer

    folder = Path(name).expanduser()
    source = str(folder) if folder.is_dir() else name
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModel.from_pretrained(source).eval().to(default_device())
        depth = model.config.num_hidden_layers
        layer = _LAYERS.get((model.config.model_type, depth), depth)
        embeddings = _token_embeddings(_texts(pairs), tokenizer, model, layer)
    except Exception as error:  # A missing, incomplete or unsuitable folder may raise any error.
        raise LmmsEgoplanError(
            f"BERTScore with {name}: {type(error).__name__}: {error}; use the folder of a "
            "BERT-like model with its tokenizer, such as roberta-large, or no model for the "
            "sentence encoder"
        ) from error
    measure = (
        f"BERTScore (F1, without idf and rescaling) of {_short_name(name)}, layer {layer} of "
        f"{depth}"
    )
    return measure, [_f1(embeddings[goal], embeddings[answer]) for goal, answer in pairs]


def _texts(pairs: Sequence[Pair]) -> list[str]:
    """Return the distinct texts of pairs, the shortest first."""
    texts: set[str] = set()
    for pair in pairs:
        texts.update(pair)
    return sorted(texts, key=lambda text: (len(text), text))


def _short_name(name: str) -> str:
    """Shorten a folder's path to its last two parts."""
    folder = Path(name).expanduser()
    return "/".join(folder.resolve().parts[-2:]) if folder.is_dir() else name


def _token_embeddings(
    texts: Sequence[str], tokenizer: Any, model: Any, layer: int
) -> dict[str, Tokens]:
    """Return each text's token vectors, of length 1, with a mask.

    The mask is false for special tokens.
    """
    import torch

    tokens = {}
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        encoded = tokenizer(
            batch,
            padding=True,
            truncation=True,
            max_length=_MAX_TOKENS,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        is_special = encoded.pop("special_tokens_mask").bool().numpy()
        is_token = encoded["attention_mask"].bool().numpy()
        with torch.inference_mode():
            hidden = model(**encoded.to(model.device), output_hidden_states=True).hidden_states[
                layer
            ]
            vectors = torch.nn.functional.normalize(hidden.float(), dim=-1).cpu().numpy()
        for row, text in enumerate(batch):
            tokens[text] = vectors[row][is_token[row]], ~is_special[row][is_token[row]]
    return tokens


def _f1(first: Tokens, second: Tokens) -> float:
    """Return the F1 of greedy matching; 0 if a text has no token."""
    first_vectors, first_mask = first
    second_vectors, second_mask = second
    if not first_mask.any() or not second_mask.any():
        return 0.0
    cosines = first_vectors @ second_vectors.T
    precision = cosines.max(1)[first_mask].mean()
    recall = cosines.max(0)[second_mask].mean()
    if precision + recall == 0:
        return 0.0
    return float(2 * precision * recall / (precision + recall))


@dataclass(frozen=True)
class GoalSimilarities:
    """The similarity of goals and right answers.

    Attributes:
        values: The similarity by goal and answer; empty if there is none.
        measure: Its name; "" if there is none.
        problem: The reason why there is none; None if there is no problem.
    """

    values: dict[tuple[str, str], float]
    measure: str = ""
    problem: str | None = None


def goal_similarities(docs: Iterable[Doc], model: str | None) -> GoalSimilarities:
    """Compute the similarity of each question's goal and right answer.

    Args:
        docs: The questions.
        model: The model for BERTScore; None for the default, a sentence encoder.

    Raises:
        LmmsEgoplanError: A model for BERTScore was requested and cannot be loaded. A missing
            sentence encoder is no error.
    """
    pairs = [(doc["task_goal"], doc["answer"]) for doc in docs]
    if not pairs:
        return GoalSimilarities({})
    try:
        values, measure = similarities(pairs, model)
    except LmmsEgoplanError as error:
        if model is not None:
            raise
        return GoalSimilarities({}, problem=str(error))
    return GoalSimilarities(values, measure)


def answer_levels(docs: Mapping[Key, Doc], similarities: GoalSimilarities) -> dict[Key, int]:
    """Return the level of each question by the similarity of its goal and right answer."""
    pairs = {key: (doc["task_goal"], doc["answer"]) for key, doc in docs.items()}
    values = similarities.values
    return levels({key: values[pair] for key, pair in pairs.items() if pair in values})
