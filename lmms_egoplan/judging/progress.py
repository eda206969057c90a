"""How far judging, or asking a language model, is: a bar while it runs, and one line at the end."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from loguru import logger
from tqdm import tqdm

from lmms_egoplan.processes import is_first_process

# Replies that are longer in coming are told while they are waited for.
_LONG_S = 10.0
_LINE = "{desc} |{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_NARROWEST_BAR = 6


class _Bar(tqdm):
    """A bar with notes behind it, the most important first; those that the terminal has no room for are left out."""

    notes: Callable[[], list[str]] = list

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm shows now, with the notes."""
        values = super().format_dict
        without_bar = values | {"bar_format": _LINE.replace("{bar}", ""), "ncols": None}
        shown = ""
        for note in self.notes():
            longer = f"{shown}, {note}".lstrip(", ")
            length = len(self.format_meter(**without_bar | {"postfix": longer}))
            if values["ncols"] and length + _NARROWEST_BAR >= values["ncols"]:
                break
            shown = longer
        return values | {"postfix": shown}


@dataclass
class Progress:
    """Counts of one run of judging over `total` answers.

    title: of what is judged; "" for no title. judge: the model that is asked. words: for what is done, to what, and
    that it was done.
    counts: ``judged``, rated now; ``cached``, rated before, or by another process; ``failed``, without a rating;
    ``refused``, how many of these the endpoint refused; ``retried``, what was sent again; ``cut``, replies that the
    limit on tokens ended; ``tokens`` of all replies, prompt and completion, as far as the endpoint tells. elsewhere:
    how many of the cached were asked at which other address; asked_elsewhere: how many are left that another process
    asks.
    """

    title: str
    judge: str
    total: int
    words: tuple[str, str, str] = ("Judging", "answers", "judged")
    counts: Counter[str] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    asked_elsewhere: int = 0
    _started: float = field(default_factory=time.monotonic)
    _waiting: dict[str, float] = field(default_factory=dict)

    def start(self, cached: int) -> None:
        """Open the bar, with `cached` of the answers rated already."""
        self.counts["cached"] = cached
        self._bar = _Bar(
            total=self.total,
            initial=cached,
            desc=f"{self.words[0]} {self.title}".rstrip(),
            bar_format=_LINE,
            dynamic_ncols=True,
            leave=False,  # the line in the log says more, and the next task's bar takes this one's place
            disable=not is_first_process(),
        )
        self._bar.notes = self._notes

    def ask(self, key: str) -> None:
        """Begin to wait for the endpoint, until `finish`."""
        self._waiting[key] = time.time()

    def finish(self, key: str = "", **counts: int) -> None:
        """Count answers that are done, by what became of them; ``refused`` counts some of the ``failed``."""
        self._waiting.pop(key, None)
        self.counts.update(counts)
        self._bar.update(sum(counts.values()) - counts.get("refused", 0))

    def retry(self) -> None:
        """Count a request that was sent again."""
        self.counts["retried"] += 1

    def wait(self) -> None:
        """Show what is waited for, if anything takes long."""
        if self._waits():
            self._bar.refresh()

    def close(self, judges: Collection[str] = ()) -> None:
        """Close the bar and log the summary.

        Args:
            judges: names of the models that answered.
        """
        self._waiting.clear()
        self.asked_elsewhere = 0
        self._bar.close()
        elsewhere = "".join(f" ({number} of them asked at {where})" for where, number in self.elsewhere.items())
        counts, (doing, answers, judged) = self.counts, self.words
        through = counts["judged"] + counts["cached"]
        names = ", ".join(sorted(judges)) or self.judge
        more = {f"{answers} refused by the endpoint": "refused", "replies cut off at the limit on tokens": "cut"}
        told = "".join(f", {counts[name]} {what}" for what, name in more.items() if counts[name])
        logger.info(
            f"{self.title or doing}: {through} of {self.total} {answers} {judged} by {names} in "
            f"{time.monotonic() - self._started:.1f} s: {counts['judged']} now, {counts['cached']} from the cache"
            f"{elsewhere}; {counts['failed']} failed, {self.total - through - counts['failed']} not reached; "
            f"{counts['retried']} retries, {counts['tokens']} tokens{told}"
        )

    def _notes(self) -> list[str]:
        names = ("failed", "retried", "cached", "tokens")
        notes = [f"{self.counts[name]:,} {name}" for name in names if self.counts[name]]
        # What is waited for is more important than all but failures.
        place = 1 if self.counts["failed"] else 0
        return notes[:place] + self._waits() + notes[place:]

    def _waits(self) -> list[str]:
        waits = []
        since = min(self._waiting.values(), default=None)
        if since is not None and time.time() - since >= _LONG_S:
            told = time.strftime("%H:%M:%S", time.localtime(since))
            waits.append(f"waiting for {len(self._waiting)} since {told}")
        if self.asked_elsewhere:
            waits.append(f"{self.asked_elsewhere} asked by another process")
        return waits
