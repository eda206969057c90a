"""Read a file of prices, and compute the cost of requests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_text
from lmms_egoplan.validation import Checked, Expected, read_as

_Amount = Annotated[
    float, Field(ge=0, allow_inf_nan=False), Expected("a price for a million tokens, from 0")
]


class ModelPrice(Checked):
    """The prices of a million prompt tokens (`input`) and of a million reply tokens (`output`)."""

    input: _Amount
    output: _Amount


@dataclass(frozen=True)
class PriceList:
    """The prices of models.

    Attributes:
        file: The JSON file.
        prices: Prices by model.
        tokens: Number of tokens that a price is for. Batches cost half as much.
    """

    file: Path
    prices: dict[str, ModelPrice]
    tokens: float

    @classmethod
    def read(cls, file: Path, *, batch: bool) -> "PriceList":
        """Read a file of prices.

        Raises:
            LmmsEgoplanError: the file is unreadable or malformed. The message names file and field.
        """
        content = parse_record(str(file), read_text(file, "prices"))
        prices = read_as(dict[str, ModelPrice], str(file), content)
        return cls(file, prices, tokens=2e6 if batch else 1e6)

    def price(self, model: str) -> ModelPrice:
        """Return the price of a model; raise `LmmsEgoplanError` if the file lacks it."""
        if model not in self.prices:
            raise LmmsEgoplanError(
                f"{self.file}: no price for {model}; it lists {', '.join(self.prices)}"
            )
        return self.prices[model]

    def cost(self, model: str, prompt_tokens: float, reply_tokens: float) -> float:
        """Return the cost of some requests to a model."""
        price = self.price(model)
        return (prompt_tokens * price.input + reply_tokens * price.output) / self.tokens


def read_prices(file: Path | None, *, batch: bool = False) -> PriceList | None:
    """Read the file of the option ``--prices``; return None without one.

    Raises:
        LmmsEgoplanError: see `PriceList.read`.
    """
    if file is None:
        return None
    return PriceList.read(file, batch=batch)
