"""Mix gold items into each person's items, at random places and in a random order.

A person's items, without those for training and qualification, form blocks of `Gold.every` + 1.
Each block has one gold item, at a random place. Places and order follow from the database's secret
and the person's name: they differ between people, nobody can work them out, and a restart changes
nothing.
"""

import hmac
import json
from functools import cached_property
from hashlib import sha256

from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.forms import Values


class GoldItems:
    """Decide when a person gets a gold item, and which one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def next_item(self, person: str) -> int | None:
        """Return the position of a person's next gold item; None if it is not due or none is left.

        Items that the lead released come after those that the person never had.
        """
        gold = self._database.study.gold
        if gold is None:
            return None
        rows = self._database.rows(
            """
            SELECT count(*) AS taken, coalesce(sum(stage = 'gold'), 0) AS taken_gold FROM slots
            WHERE person = :person AND state != 'released'
                AND stage NOT IN ('training', 'qualification')
            """,
            {"person": person},
        )
        if rows[0]["taken_gold"] >= self._num_due(person, rows[0]["taken"], gold.every):
            return None
        return self._first_free(person)

    def _first_free(self, person: str) -> int | None:
        """Return the first gold item that a person has not taken, in the person's order."""
        rows = self._database.rows(
            "SELECT item, state FROM slots WHERE person = :person AND stage = 'gold'",
            {"person": person},
        )
        taken = {row["item"] for row in rows if row["state"] != "released"}
        released = {row["item"] for row in rows} - taken
        never_had: list[int] = []
        again: list[int] = []
        for position in self._order(person):
            if position in released:
                again.append(position)
            elif position not in taken:
                never_had.append(position)
        return next(iter([*never_had, *again]), None)

    def num_asked(self, person: str, num_main: int) -> int:
        """Return how many gold items a person gets with this number of items in the rounds."""
        gold = self._database.study.gold
        if gold is None:
            return 0
        blocks, rest = divmod(num_main, gold.every)
        # The items before the place in the last, unfinished block are other ones.
        is_reached = self._turn(person, blocks, gold.every) <= rest
        return min(blocks + is_reached, len(self._positions))

    def mean_asked(self, num_main: float) -> float:
        """Return the mean number of gold items with this number of items in the rounds."""
        gold = self._database.study.gold
        return min(num_main / gold.every, len(self._positions)) if gold else 0.0

    def is_stopped(self, person: str) -> bool:
        """Return whether a person has labelled too many gold items wrongly to get new items.

        The first label of each gold item counts. If corrections did, people could find the gold
        items by changing their labels one after another.
        """
        gold = self._database.study.gold
        if gold is None or gold.stop_after_errors is None:
            return False
        rows = self._database.rows(
            """
            SELECT items.known, history."values" FROM slots
            JOIN items ON items.position = slots.item
            JOIN history ON history.id = (
                SELECT min(id) FROM history WHERE slot = slots.id AND "values" IS NOT NULL
            )
            WHERE person = :person AND stage = 'gold'
            """,
            {"person": person},
        )
        errors = 0
        for row in rows:
            errors += not has_known(json.loads(row["known"]), json.loads(row["values"]))
        return errors >= gold.stop_after_errors

    def _num_due(self, person: str, taken: int, every: int) -> int:
        """Return how many gold items a person should have after taking the next item.

        Args:
            taken: Number of items that the person has taken, with gold items.
            every: See `Gold`.
        """
        blocks, rest = divmod(taken, every + 1)
        return blocks + (self._turn(person, blocks, every) <= rest)

    def _turn(self, person: str, block: int, every: int) -> int:
        """Return the place of the gold item in a block, from 0 to `every`."""
        return self._random(f"place {block} {person}") % (every + 1)

    def _order(self, person: str) -> list[int]:
        """Return the positions of all gold items in a person's order."""
        return sorted(
            self._positions, key=lambda position: self._random(f"order {position} {person}")
        )

    def _random(self, what: str) -> int:
        """Return a number that nobody can predict without the secret."""
        return int.from_bytes(hmac.digest(self._secret, f"gold {what}".encode(), sha256), "big")

    @cached_property
    def _secret(self) -> bytes:
        return self._database.setting("secret").encode()

    @cached_property
    def _positions(self) -> list[int]:
        """The positions of all gold items, which are fixed when the database is created."""
        rows = self._database.rows("SELECT position FROM items WHERE part = 'gold'")
        return [row["position"] for row in rows]


def has_known(known: Values, values: Values) -> bool:
    """Return whether a label has all of the known values."""
    return all(values.get(name) == value for name, value in known.items())
