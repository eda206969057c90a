"""Which of an environment's actions a free text means."""

from collections.abc import Sequence

from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.encoder import load_encoder

# The project's own: below, a text is none of the actions.
LEAST_SIMILARITY = 0.6


def ground(texts: Sequence[str], actions: Sequence[str] | None) -> list[tuple[str | None, float | None]]:
    """Find the action of each text, and their similarity: the same words, or the nearest by sentence embeddings.

    Args:
        actions: None where every text is an action; then the text itself, without a similarity.

    Returns:
        None for a text that is like none of the actions; the similarity is that of the nearest.

    Raises:
        LmmsEgoplanError: the sentence encoder cannot be loaded.

    >>> ground(["Open the tap."], ["close the tap", "open tap"])
    [('open tap', 1.0)]
    """
    if actions is None:
        return [(text.strip() or None, None) for text in texts]
    known = {normalised(action): action for action in actions}
    alike: dict[str, tuple[str | None, float | None]] = {key: (action, 1.0) for key, action in known.items()}
    others = [text for text in texts if normalised(text) not in known]
    alike |= _nearest(others, actions) if others and actions else {}
    return [alike.get(normalised(text), (None, None)) for text in texts]


def _nearest(texts: Sequence[str], actions: Sequence[str]) -> dict[str, tuple[str | None, float | None]]:
    encoder = load_encoder()
    embedded, known = (encoder.encode(list(some), normalize_embeddings=True) for some in (texts, actions))
    nearest: dict[str, tuple[str | None, float | None]] = {}
    for text, similarities in zip(texts, (embedded @ known.T).tolist(), strict=True):
        similarity = max(similarities)
        action = actions[similarities.index(similarity)] if similarity >= LEAST_SIMILARITY else None
        nearest[normalised(text)] = (action, similarity)
    return nearest
