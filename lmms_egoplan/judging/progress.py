"""How far judging is: a bar while it runs, and one line at the end."""

import time
from collections import Counter
from dataclasses import dataclass, field

from loguru import logger
from tqdm import tqdm


@dataclass
class Progress:
    """Counts of one run of judging over `total` answers.

    judged: rated now; cached: rated before; retried: what was sent again; failed: without a rating; tokens: of all
    replies, prompt and completion, as far as the endpoint tells; elsewhere: how many of the cached were asked at which
    other address.
    """

    judge: str
    total: int
    show: bool
    judged: int = 0
    cached: int = 0
    retried: int = 0
    failed: int = 0
    tokens: int = 0
    elsewhere: Counter[str] = field(default_factory=Counter)
    _started: float = field(default_factory=time.monotonic)

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

    def finish(self, *, judged: int = 0, failed: int = 0) -> None:
        """Some more answers are through."""
        self.judged += judged
        self.failed += failed
        self._show()
        self._bar.update(judged + failed)

    def retry(self) -> None:
        """Something was sent again."""
        self.retried += 1
        self._show()

    def close(self) -> None:
        """Close the bar and log the summary."""
        self._bar.close()
        elsewhere = "".join(f" ({number} of them asked at {where})" for where, number in self.elsewhere.items())
        open_ = self.total - self.judged - self.cached - self.failed
        logger.info(
            f"Judged {self.judged + self.cached} of {self.total} answers with {self.judge} in "
            f"{time.monotonic() - self._started:.1f} s: {self.judged} now, {self.cached} from the cache{elsewhere}; "
            f"{self.failed} failed, {open_} not reached; {self.retried} retries, {self.tokens} tokens"
        )

    def _show(self) -> None:
        names = ("judged", "cached", "retried", "failed", "tokens")
        self._bar.set_postfix({name: getattr(self, name) for name in names}, refresh=False)
