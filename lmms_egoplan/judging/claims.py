"""Which prompts a run asks: each is asked by one process alone, the next when the last reply is on the disk."""

import asyncio
import os
import platform
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from loguru import logger

from lmms_egoplan.judging.cache import CacheError, JudgementCache, Outcome
from lmms_egoplan.judging.judgement import Judgement

# A claim ends by itself after so long, and is renewed three times in it, or else it would outlive a lost machine.
LEASE_S = 30.0
# Claims of a clock that is so many leases ahead are not waited for.
_CLOCKS_APART = 10
# Prompts that are looked up together.
_MOST_AT_ONCE = 240
# How often those are looked at that another process asks.
_POLL_S = 1.0


@dataclass
class _Round:
    """What one transaction has given."""

    claimed: list[str] = field(default_factory=list)
    settled: dict[str, Judgement] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)


class Claims:
    """The prompts of one run, by their keys in the cache, shared with the runs of other processes.

    All slots of the run hand in outcomes and get their next prompts in one transaction, so that many wait for one
    disk together. A claim ends with its outcome, with `close`, when its process is gone, or when it is not renewed.
    Where the cache fails, a warning tells, and the rest is asked without claims.

    busy: how many prompts another process asks; only these are left.
    """

    def __init__(
        self,
        keys: Iterable[str],
        cache: JudgementCache,
        read: Callable[[Outcome], Judgement | None],
        settled: Callable[[str, Judgement], None],
    ) -> None:
        """Prompts are handed out in the order of their keys.

        Args:
            read: what an outcome that another process has stored says about a prompt; None if it says nothing.
            settled: is told a prompt that another process has asked, and what it has come to.
        """
        self.busy = 0
        self._open, self._busy = deque(keys), deque[str]()
        self._cache, self._read, self._settled = cache, read, settled
        self._owner = f"{_place()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = 0.0
        self._unstored: dict[str, Outcome] = {}
        self._without_outcome: list[str] = []
        self._slots: deque[asyncio.Future[str | None]] = deque()
        self._is_failing = self._has_warned = self._is_closing = False

    async def __aenter__(self) -> "Claims":
        self._wake = asyncio.Event()
        self._serving = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store what has come, and release what is claimed."""
        self._is_closing = True
        self._wake.set()
        await asyncio.gather(self._serving, return_exceptions=True)
        try:
            await asyncio.to_thread(self._close)
        except CacheError as error:
            self._warn(error)

    async def take(self) -> str | None:
        """The next prompt to ask; None when there are no more. Returns once what was finished before is stored.

        Raises:
            Exception: whatever reading another process's outcome raised.
        """
        if self._serving.done():
            self._serving.result()
        self._wake.set()
        if self._is_failing and (left := self._open or self._busy):
            return left.popleft()
        slot = asyncio.get_running_loop().create_future()
        self._slots.append(slot)
        return await slot

    def finish(self, key: str, outcome: Outcome | None) -> None:
        """A prompt is through; None: nothing came, so that another process may ask."""
        if outcome is None:
            self._without_outcome.append(key)
        else:
            self._unstored[key] = outcome

    async def _serve(self) -> None:
        try:
            while not self._is_closing:
                self._wake.clear()
                await self._store_and_claim()
                is_waiting = self._slots and (self._open or self._busy)
                try:
                    await asyncio.wait_for(self._wake.wait(), _POLL_S if is_waiting else LEASE_S / 3)
                except (TimeoutError, asyncio.TimeoutError):
                    continue
        except Exception as error:
            while (slot := self._next_slot()) is not None:
                slot.set_exception(error)
            raise

    async def _store_and_claim(self) -> None:
        outcomes, ended = dict(self._unstored), list(self._without_outcome)
        candidates = [*self._open, *self._busy]
        try:
            found = await asyncio.to_thread(self._exchange, outcomes, ended, len(self._slots), candidates)
        except CacheError as error:
            self._warn(error)
            self._is_failing = True
            found = _Round(claimed=[*self._open, *self._busy][: len(self._slots)])
        else:
            self._is_failing = False
            self._unstored = {k: v for k, v in self._unstored.items() if outcomes.get(k) is not v}
            self._without_outcome = self._without_outcome[len(ended) :]
        # Some may have been asked without a claim meanwhile.
        left = {*self._open, *self._busy}
        for key, judgement in found.settled.items():
            if key in left:
                self._settled(key, judgement)
        claimed = deque(key for key in found.claimed if key in left)
        while claimed and (slot := self._next_slot()) is not None:
            slot.set_result(claimed.popleft())
        gone = {*found.claimed, *found.settled, *found.busy}
        self._open = claimed + deque(key for key in self._open if key not in gone)
        self._busy = deque(key for key in self._busy if key not in gone) + deque(
            key for key in found.busy if key in left
        )
        while not (self._open or self._busy) and (slot := self._next_slot()) is not None:
            slot.set_result(None)
        self.busy = len(self._busy) if self._slots and not self._open else 0

    def _next_slot(self) -> "asyncio.Future[str | None] | None":
        while self._slots:
            slot = self._slots.popleft()
            if not slot.done():
                return slot
        return None

    def _exchange(self, outcomes: dict[str, Outcome], ended: list[str], wanted: int, candidates: list[str]) -> _Round:
        """Store, renew and claim in one transaction."""
        found, now = _Round(), time.time()
        expires = now + LEASE_S
        is_due = now - self._renewed >= LEASE_S / 3 or now < self._renewed
        if not (outcomes or ended or is_due or (wanted and candidates)):
            return found
        with self._cache.transaction():
            if outcomes:
                self._cache.store(outcomes)
            if ended:
                self._cache.release(self._owner, ended)
            if is_due:
                self._cache.renew(self._owner, expires)
            size = min(wanted, _MOST_AT_ONCE)
            while candidates and (missing := wanted - len(found.claimed)):
                keys, candidates = candidates[:size], candidates[size:]
                claims, stored = self._cache.look_up(keys)
                settled = self._known(stored) if stored else {}
                busy = [key for key in keys if key in claims and self._is_anothers(*claims[key])]
                found.settled |= settled
                found.busy += [key for key in busy if key not in settled]
                found.claimed += [key for key in keys if key not in settled and key not in busy][:missing]
                size = min(2 * size, _MOST_AT_ONCE)
            if found.claimed:
                self._cache.claim(found.claimed, self._owner, expires)
        if is_due:
            self._renewed = now
        return found

    def _is_anothers(self, owner: str, expires: float) -> bool:
        return owner != self._owner and not _is_free(owner, expires)

    def _known(self, keys: Collection[str]) -> dict[str, Judgement]:
        """What other processes have found meanwhile."""
        stored = [*self._cache.load_failures(keys).items(), *self._cache.load(keys).items()]
        return {key: judgement for key, outcome in stored if (judgement := self._read(outcome)) is not None}

    def _close(self) -> None:
        with self._cache.transaction():
            self._cache.store(self._unstored)
            self._cache.release(self._owner)

    def _warn(self, error: CacheError) -> None:
        # The judgements are still in the result; only a repeated run would ask for them again.
        if not self._has_warned:
            logger.warning(f"Judgements are not stored: {error}")
        self._has_warned = True


def _is_free(owner: str, expires: float) -> bool:
    """Whether another owner's claim counts no longer."""
    now = time.time()
    return not now <= expires <= now + _CLOCKS_APART * LEASE_S or _is_gone(owner)


def _is_gone(owner: str) -> bool:
    """Whether the owner's process is known to have ended; on another machine none is."""
    place, _, rest = owner.partition(" ")
    pid = rest.partition(" ")[0]
    if os.name != "posix" or place != _place() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _place() -> str:
    """What tells the processes of this machine, since it was started, and of this container, from others."""
    parts = [platform.node()]
    for read in (
        lambda: Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
        lambda: str(Path("/proc/self/ns/pid").readlink()),
    ):
        try:
            parts.append(read())
        except OSError:
            continue
    return "/".join("".join(part.split()) for part in parts)
