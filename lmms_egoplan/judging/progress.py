"""Show the progress of judging or of other requests: a bar, and one log line at the end."""

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from loguru import logger
from tqdm import tqdm

from lmms_egoplan.processes import is_first_process

# Waits longer than this are shown in the bar.
_LONG_S = 10.0
_LINE = "{desc} |{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_NARROWEST_BAR = 6


@dataclass(frozen=True)
class MessageWords:
    """Words for messages.

    Attributes:
        doing: The activity.
        answers: Its objects.
        judged: Its past participle.
        model: The model's role.
    """

    doing: str
    answers: str
    judged: str
    model: str


JUDGING_WORDS = MessageWords("Judging", "answers", "judged", "judge")
WRITING_WORDS = MessageWords("Asking for", "prompts", "answered", "language model")


class RequestProgress(tqdm):
    """A bar over all answers of a run, with as many notes as fit into the terminal.

    Attributes:
        counts: ``judged``: rated in this run; ``cached``: rated earlier or by another process;
            ``failed``: without a rating; ``refused``: failures that the endpoint refused;
            ``filtered``: failures of its content filter, in this run or earlier;
            ``retried``: repeated requests; ``cut``: replies that the token limit ended; ``tokens``:
            prompt and completion tokens, if the endpoint reports them.
        elsewhere: Number of cached answers from other endpoints, by address.
        asked_elsewhere: Number of open prompts that other processes have claimed.
        waiting: Start time of each open request, by prompt.
        batches: Number of requests that are done, and of all, by batch.
    """

    def __init__(
        self,
        words: MessageWords,
        title: str,
        total: int,
        cached: int = 0,
        *,
        is_hidden: bool = False,
    ) -> None:
        """Open the bar.

        Args:
            words: words for messages.
            title: short name of the task; "" for no title.
            total: number of answers.
            cached: number of answers that are already rated.
            is_hidden: show no bar.
        """
        self._words = words
        self._title = title
        self._started = time.monotonic()
        self.counts = Counter(cached=cached)
        self.elsewhere: Counter[str] = Counter()
        self.asked_elsewhere = 0
        self.waiting: dict[str, float] = {}
        self.batches: dict[str, tuple[int, int]] = {}
        super().__init__(
            total=total,
            initial=cached,
            desc=f"{words.doing} {title}".rstrip(),
            bar_format=_LINE,
            dynamic_ncols=True,
            leave=False,  # the log line replaces the bar
            disable=is_hidden or not is_first_process(),
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        """Values that tqdm displays, with the most important notes."""
        values = super().format_dict
        without_bar = values | {"bar_format": _LINE.replace("{bar}", ""), "ncols": None}
        notes = [
            f"{self.counts[name]:,} {name}"
            for name in ("retried", "cached", "tokens")
            if self.counts[name]
        ]
        failed = [f"{self.counts['failed']:,} failed"] if self.counts["failed"] else []
        postfix = ""
        for note in (*failed, *self._waits(), *notes):
            longer = f"{postfix}, {note}".lstrip(", ")
            length = len(self.format_meter(**without_bar | {"postfix": longer}))
            if values["ncols"] and length + _NARROWEST_BAR >= values["ncols"]:
                break
            postfix = longer
        return values | {"postfix": postfix}

    def count(self, **counts: int) -> None:
        """Add finished answers by outcome, ``judged`` or ``cached``."""
        self.counts.update(counts)
        self.update(sum(counts.values()))

    def count_failed(self, answers: int, *, is_refused: bool, is_filtered: bool) -> None:
        """Add answers without a rating."""
        self.counts["failed"] += answers
        if is_refused:
            self.counts["refused"] += answers
        if is_filtered:
            self.counts["filtered"] += answers
        self.update(answers)

    def show_waits(self) -> None:
        """Show long waits, if any."""
        if self._waits():
            self.refresh()

    def summarize(self, judges: Collection[str], tokens: str, cached_tokens: str) -> None:
        """Close the bar and log the summary.

        Args:
            judges: names of the models that replied.
            tokens: numbers of requests and tokens of this run.
            cached_tokens: those of the replies from the cache, when they were made.
        """
        self.waiting.clear()
        self.asked_elsewhere = 0
        self.close()
        counts = self.counts
        words = self._words
        rated = counts["judged"] + counts["cached"]
        elsewhere = ""
        for address, number in self.elsewhere.items():
            elsewhere += f" ({number} of them from {address})"
        exceptions = ""
        if counts["refused"]:
            exceptions += f", {counts['refused']} {words.answers} refused by the endpoint"
        if counts["filtered"]:
            exceptions += f", {counts['filtered']} {words.answers} filtered"
        if counts["cut"]:
            exceptions += f", {counts['cut']} replies cut off at the limit on tokens"
        logger.info(
            f"{self._title or words.doing}: {rated} of {self.total} {words.answers} {words.judged} "
            f"by {', '.join(sorted(judges))} in {time.monotonic() - self._started:.1f} s: "
            f"{counts['judged']} now, {counts['cached']} from the cache{elsewhere}; "
            f"{counts['failed']} failed, {self.total - rated - counts['failed']} not reached; "
            f"{counts['retried']} retries{exceptions}; now: {tokens}; from the cache: "
            f"{cached_tokens}"
        )

    def _waits(self) -> list[str]:
        """Describe the waits that are long."""
        waits = []
        since = min(self.waiting.values(), default=None)
        if since is not None and time.time() - since >= _LONG_S:
            clock = time.strftime("%H:%M:%S", time.localtime(since))
            waits.append(f"waiting for {len(self.waiting)} since {clock}")
        if self.batches:
            num_done = sum(done for done, _ in self.batches.values())
            num_requests = sum(total for _, total in self.batches.values())
            waits.append(f"{num_done:,} of {num_requests:,} done in batches")
        if self.asked_elsewhere:
            waits.append(f"{self.asked_elsewhere} asked by another process")
        return waits
