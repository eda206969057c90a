"""What the classifier reads of a pair: ``[CLS] gold [SEP] candidate [SEP]``, cut to a number of tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_egoplan.text import clean_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Sec. 4.2.2's plans are written with these: each is one token.
ACTION_TOKENS = ("switch-on", "switch-off", "place_inside", "place_on_top", "walk_to")

_MARKS = 3


@dataclass(frozen=True)
class PairTokens:
    """A pair's token ids with marks, whether each is of the second part, and whether some are left out."""

    input_ids: list[int]
    token_type_ids: list[int]
    truncated: bool

    def inputs(self) -> dict[str, list[int]]:
        """For ``tokenizer.pad``."""
        return {"input_ids": self.input_ids, "token_type_ids": self.token_type_ids}


def encode_pair(tokenizer: "PreTrainedTokenizerBase", max_length: int, gold: str, candidate: str) -> PairTokens:
    """Encode a pair; tokens beyond `max_length` are taken from the end of the longer text first.

    The same as the tokenizer's own ``longest_first`` truncation, which for two long texts keeps the product of all
    that it cuts off in memory.
    """
    first, second = tokenizer([clean_text(gold), clean_text(candidate)], add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    room = max_length - _MARKS
    share = room // 2 + (room % 2 if len(first) > len(second) else 0)
    kept_first = first[: max(share, room - len(second))]
    kept_second = second[: room - len(kept_first)]
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    return PairTokens(
        [cls, *kept_first, sep, *kept_second, sep],
        [0] * (len(kept_first) + 2) + [1] * (len(kept_second) + 1),
        len(first) + len(second) > room,
    )
