"""How far judging, or asking a language model, is: a bar while it runs, and one line at the end."""

import time
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from loguru import logger
from tqdm import tqdm

from lmms_egoplan.processes import is_first_process

# Replies that are longer in coming are told while they are waited for.
_LONG_S = 10.0
_LINE = "{desc} |{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_NARROWEST_BAR = 6


class Words(NamedTuple):
    """For what is done, to what, that it was done, and by what."""

    doing: str
    answers: str
    judged: str
    model: str


class Progress(tqdm):
    """A bar over all answers of a run, with notes, of which those are shown that the terminal has room for.

    counts: ``judged``, rated now; ``cached``, rated before, or by another process; ``failed``, without a rating;
    ``refused``, how many of these the endpoint refused; ``retried``, what was sent again; ``cut``, replies that the
    limit on tokens ended; ``tokens`` of all replies, prompt and completion, as far as the endpoint tells.
    elsewhere: how many of the cached were asked at which other address.
    asked_elsewhere: how many are left that another process asks.
    waiting: since when the endpoint is asked, by prompt.
    """

    def __init__(self, words: Words, title: str, total: int, cached: int = 0) -> None:
        """Open the bar.

        Args:
            title: of what is judged; "" for no title.
            cached: answers that are rated already.
        """
        self._words, self._title, self._started = words, title, time.monotonic()
        self.counts = Counter(cached=cached)
        self.elsewhere: Counter[str] = Counter()
        self.asked_elsewhere = 0
        self.waiting: dict[str, float] = {}
        super().__init__(
            total=total,
            initial=cached,
            desc=f"{words.doing} {title}".rstrip(),
            bar_format=_LINE,
            dynamic_ncols=True,
            leave=False,  # the line in the log says more, and the next task's bar takes this one's place
            disable=not is_first_process(),
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm shows now, with the most important notes."""
        values = super().format_dict
        without_bar = values | {"bar_format": _LINE.replace("{bar}", ""), "ncols": None}
        notes = [f"{self.counts[name]:,} {name}" for name in ("retried", "cached", "tokens") if self.counts[name]]
        failed = [f"{self.counts['failed']:,} failed"] if self.counts["failed"] else []
        shown = ""
        for note in (*failed, *self._waits(), *notes):
            longer = f"{shown}, {note}".lstrip(", ")
            length = len(self.format_meter(**without_bar | {"postfix": longer}))
            if values["ncols"] and length + _NARROWEST_BAR >= values["ncols"]:
                break
            shown = longer
        return values | {"postfix": shown}

    def count(self, **counts: int) -> None:
        """Count answers that are done, by what became of them; ``refused`` counts some of the ``failed``."""
        self.counts.update(counts)
        self.update(sum(counts.values()) - counts.get("refused", 0))

    def show_waits(self) -> None:
        """Show what is waited for, if anything takes long."""
        if self._waits():
            self.refresh()

    def summarize(self, judges: Collection[str]) -> None:
        """Close the bar and log the summary.

        Args:
            judges: names of the models that answered.
        """
        self.waiting.clear()
        self.asked_elsewhere = 0
        self.close()
        elsewhere = "".join(f" ({number} of them asked at {where})" for where, number in self.elsewhere.items())
        counts, (doing, answers, judged, _) = self.counts, self._words
        through = counts["judged"] + counts["cached"]
        more = {f"{answers} refused by the endpoint": "refused", "replies cut off at the limit on tokens": "cut"}
        others = "".join(f", {counts[name]} {what}" for what, name in more.items() if counts[name])
        logger.info(
            f"{self._title or doing}: {through} of {self.total} {answers} {judged} by {', '.join(sorted(judges))} in "
            f"{time.monotonic() - self._started:.1f} s: {counts['judged']} now, {counts['cached']} from the cache"
            f"{elsewhere}; {counts['failed']} failed, {self.total - through - counts['failed']} not reached; "
            f"{counts['retried']} retries, {counts['tokens']} tokens{others}"
        )

    def _waits(self) -> list[str]:
        waits = []
        since = min(self.waiting.values(), default=None)
        if since is not None and time.time() - since >= _LONG_S:
            clock = time.strftime("%H:%M:%S", time.localtime(since))
            waits.append(f"waiting for {len(self.waiting)} since {clock}")
        if self.asked_elsewhere:
            waits.append(f"{self.asked_elsewhere} asked by another process")
        return waits
