"""Which prompts a run asks: each is asked by one process alone, the next when the last reply is on the disk."""

import asyncio
import math
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

    What all slots of the run hand in, and their next prompts, go through one transaction at a time, so that many wait
    for one disk together. A claim ends with its outcome, when the run is left, when its process is gone, or when it is
    not renewed. Where the cache fails, a warning tells, and the rest is asked without claims.
    """

    def __init__(
        self,
        keys: Iterable[str],
        cache: JudgementCache,
        read: Callable[[Outcome], Judgement | None],
        settled: Callable[[str, Judgement], None],
    ) -> None:
        """Hand out prompts in the order of their keys.

        Args:
            read: what an outcome that another process has stored says about a prompt; None if it says nothing.
            settled: is told a prompt that another process has asked, and what it has come to.
        """
        self._open, self._busy, self._claimed = deque(keys), deque[str](), deque[str]()
        self._cache, self._read, self._settled = cache, read, settled
        self._owner = f"{_place()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = self._looked = -math.inf
        self._unstored: dict[str, Outcome] = {}
        self._without_outcome: list[str] = []
        self._waiting = 0
        self._is_failing = self._has_warned = False

    @property
    def busy(self) -> int:
        """Number of prompts that another process asks, while a slot has nothing else to do."""
        return len(self._busy) if self._waiting and not self._open else 0

    async def __aenter__(self) -> "Claims":
        self._lock = asyncio.Lock()
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store what has come, and release what is claimed, also where the caller is cancelled meanwhile."""
        self._renewing.cancel()
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def take(self) -> str | None:
        """Return the next prompt to ask, or None, once what was finished before is stored.

        Raises:
            Exception: whatever reading another process's outcome raised.
        """
        self._waiting += 1
        try:
            while True:
                if not self._is_failing:
                    await asyncio.shield(self._exchange(is_claiming=True))
                if self._claimed:
                    return self._claimed.popleft()
                left = self._open or self._busy
                if not left:
                    return None
                if self._is_failing:
                    return left.popleft()
                await asyncio.sleep(_POLL_S)
        finally:
            self._waiting -= 1

    def finish(self, key: str, outcome: Outcome | None) -> None:
        """End a prompt; without an outcome, another process may ask it."""
        if outcome is None:
            self._without_outcome.append(key)
        else:
            self._unstored[key] = outcome

    async def _renew(self) -> None:
        """Keep claims alive, and store what could not be stored before."""
        while True:
            await asyncio.sleep(min(_POLL_S, LEASE_S / 3))
            await asyncio.shield(self._exchange(is_claiming=False))

    async def _exchange(self, *, is_claiming: bool) -> None:
        """Store what has come and, where asked to, claim prompts for all slots that wait; nothing if that is done.

        To be shielded: the caller may be cancelled, the transaction in its thread may not.
        """
        async with self._lock:
            if is_claiming and self._is_failing:
                return
            outcomes, ended = dict(self._unstored), list(self._without_outcome)
            wanted = self._waiting - len(self._claimed) if is_claiming else 0
            # What others ask is looked at once for all slots.
            is_looking = wanted > 0 and (self._open or time.monotonic() - self._looked > _POLL_S / 2)
            candidates = [*self._open, *self._busy] if is_looking else []
            try:
                found = await asyncio.to_thread(self._transact, outcomes, ended, wanted, candidates)
            except CacheError as error:
                self._warn(error)
                self._is_failing = True
                return
            self._is_failing = False
            self._unstored = {k: v for k, v in self._unstored.items() if outcomes.get(k) is not v}
            self._without_outcome = self._without_outcome[len(ended) :]
            if not candidates:
                return
            self._looked = time.monotonic()
            for key, judgement in found.settled.items():
                self._settled(key, judgement)
            gone = {*found.claimed, *found.settled, *found.busy}
            self._claimed += found.claimed
            self._open = deque(key for key in self._open if key not in gone)
            self._busy = deque(key for key in self._busy if key not in gone) + deque(found.busy)

    def _transact(self, outcomes: dict[str, Outcome], ended: list[str], wanted: int, candidates: list[str]) -> _Round:
        """Store, renew and claim in one transaction."""
        found = _Round()
        is_due = not 0 <= time.time() - self._renewed < LEASE_S / 3
        if not (outcomes or ended or is_due or candidates):
            return found
        with self._cache.transaction():
            now = time.time()  # another process may have held the file until then
            expires = now + LEASE_S
            self._cache.store(outcomes)
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
            self._cache.claim(found.claimed, self._owner, expires)
        if is_due:
            self._renewed = now
        return found

    def _is_anothers(self, owner: str, expires: float) -> bool:
        return owner != self._owner and not _is_free(owner, expires)

    def _known(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load what other processes have stored meanwhile."""
        stored = [*self._cache.load_failures(keys).items(), *self._cache.load(keys).items()]
        return {key: judgement for key, outcome in stored if (judgement := self._read(outcome)) is not None}

    async def _close(self) -> None:
        async with self._lock:
            try:
                await asyncio.to_thread(self._store_and_release_all)
            except CacheError as error:
                self._warn(error)

    def _store_and_release_all(self) -> None:
        with self._cache.transaction():
            self._cache.store(self._unstored)
            self._cache.release(self._owner)

    def _warn(self, error: CacheError) -> None:
        # The judgements are still in the result; only a repeated run would ask for them again.
        if not self._has_warned:
            logger.warning(f"Judgements are not stored: {error}")
        self._has_warned = True


def _is_free(owner: str, expires: float) -> bool:
    """Return whether another owner's claim no longer counts."""
    now = time.time()
    return not now <= expires <= now + _CLOCKS_APART * LEASE_S or _is_gone(owner)


def _is_gone(owner: str) -> bool:
    """Return whether the owner's process is known to have ended; on another machine none is."""
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
    """Identify this machine, since it was started, and this container."""
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
