"""How far judging is: a bar while it runs, and one line at the end."""

import time
from collections import Counter
from dataclasses import dataclass, field

from loguru import logger
from tqdm import tqdm

# Replies that are longer in coming are told while they are waited for.
_LONG_S = 10.0


@dataclass
class Progress:
    """Counts of one run of judging over `total` answers.

    judged: rated now; cached: rated before, or by another process; retried: what was sent again; failed: without a
    rating; refused: of these, how many the endpoint refused; cut: replies that the limit on tokens ended; tokens: of
    all replies, prompt and completion, as far as the endpoint tells; elsewhere: how many of the cached were asked at
    which other address; asked_elsewhere: how many are left that another process asks.
    """

    judge: str
    total: int
    show: bool
    judged: int = 0
    cached: int = 0
    retried: int = 0
    failed: int = 0
    refused: int = 0
    cut: int = 0
    tokens: int = 0
    elsewhere: Counter[str] = field(default_factory=Counter)
    asked_elsewhere: int = 0
    _started: float = field(default_factory=time.monotonic)
    _waiting: dict[str, float] = field(default_factory=dict)

    def start(self, cached: int) -> None:
        """Open the bar, with `cached` of the answers rated already."""
        self.cached = cached
        self._bar = tqdm(
            total=self.total,
            initial=cached,
            desc=f"Judging with {self.judge}",
            unit="answer",
            dynamic_ncols=True,
            disable=not self.show,
        )
        self._show()

    def ask(self, key: str) -> None:
        """The endpoint is asked, and waited for until `finish`."""
        self._waiting[key] = time.time()

    def finish(self, key: str = "", *, judged: int = 0, failed: int = 0, refused: int = 0, cached: int = 0) -> None:
        """Some more answers are through; `refused` tells how many of the failed ones."""
        self._waiting.pop(key, None)
        self.judged += judged
        self.failed += failed
        self.refused += refused
        self.cached += cached
        self._show()
        self._bar.update(judged + failed + cached)

    def retry(self) -> None:
        """Something was sent again."""
        self.retried += 1
        self._show()

    def wait(self) -> None:
        """Tell what is waited for; nothing where all goes well."""
        if self._waits():
            self._show()
            self._bar.refresh()

    def close(self) -> None:
        """Close the bar and log the summary."""
        self._waiting.clear()
        self.asked_elsewhere = 0
        self._show()
        self._bar.close()
        elsewhere = "".join(f" ({number} of them asked at {where})" for where, number in self.elsewhere.items())
        open_ = self.total - self.judged - self.cached - self.failed
        more = {"answers refused by the endpoint": self.refused, "replies cut off at the limit on tokens": self.cut}
        told = "".join(f", {number} {what}" for what, number in more.items() if number)
        logger.info(
            f"Judged {self.judged + self.cached} of {self.total} answers with {self.judge} in "
            f"{time.monotonic() - self._started:.1f} s: {self.judged} now, {self.cached} from the cache{elsewhere}; "
            f"{self.failed} failed, {open_} not reached; {self.retried} retries, {self.tokens} tokens{told}"
        )

    def _waits(self) -> list[str]:
        waits = []
        since = min(self._waiting.values(), default=None)
        if since is not None and time.time() - since >= _LONG_S:
            told = time.strftime("%H:%M:%S", time.localtime(since))
            waits.append(f"waiting for {len(self._waiting)} replies since {told}")
        if self.asked_elsewhere:
            waits.append(f"waiting for {self.asked_elsewhere} that another process asks")
        return waits

    def _show(self) -> None:
        names = ("judged", "cached", "retried", "failed", "tokens")
        counts = [f"{name}={getattr(self, name)}" for name in names]
        self._bar.set_postfix_str(", ".join(counts + self._waits()), refresh=False)
