"""Share the prompts of one run with the runs of other processes, through the database.

A process claims a prompt before it sends the request. A claim ends when its outcome is stored, its
run closes, its process ends, or its lease expires.
"""

import asyncio
import functools
import math
import os
import platform
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import psutil
from loguru import logger

from lmms_egoplan.judging.cache import CacheError, Claim, JudgementCache
from lmms_egoplan.judging.judgement import Judgement

# A claim expires after this time and is renewed three times within it. Claims of a lost machine
# therefore end.
LEASE_S = 30.0
# Ignore claims from clocks that are more than this many leases ahead.
_MOST_LEASES_AHEAD = 10
# Number of prompts per lookup.
_LOOKUP_SIZE = 60
# Seconds between checks for results of other processes.
_POLL_S = 1.0


class ClaimTable:
    """The claims of one run in the database.

    Call its methods in a transaction of the cache.
    """

    def __init__(self, cache: JudgementCache) -> None:
        self._cache = cache
        self._owner = f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"

    def add(self, keys: Iterable[str], now: float) -> None:
        """Claim prompts for the time of a lease."""
        self._cache.write(
            "INSERT OR REPLACE INTO claims VALUES (:key, :owner, :expires)",
            [{"key": key, "owner": self._owner, "expires": now + LEASE_S} for key in keys],
        )

    def extend(self, now: float) -> None:
        """Extend the leases of all claims."""
        self._cache.write(
            "UPDATE claims SET expires = :expires WHERE owner = :owner",
            [{"expires": now + LEASE_S, "owner": self._owner}],
        )

    def release(self, keys: Iterable[str]) -> None:
        """Release the claims of some prompts."""
        self._cache.write(
            "DELETE FROM claims WHERE key = :key AND owner = :owner",
            [{"key": key, "owner": self._owner} for key in keys],
        )

    def release_all(self) -> None:
        """Release all claims."""
        self._cache.write("DELETE FROM claims WHERE owner = :owner", [{"owner": self._owner}])

    def held_by_others(self, keys: Collection[str]) -> set[str]:
        """Return those of some prompts that other processes have claimed."""
        claims = self._cache.load_claims(keys)
        return {key for key, claim in claims.items() if self._is_held_by_other(claim)}

    def _is_held_by_other(self, claim: Claim) -> bool:
        """Return whether a claim is another process's and still valid.

        A valid claim has not expired, and its process may still run.
        """
        if claim.owner == self._owner:
            return False
        now = time.time()
        is_valid = now <= claim.expires <= now + _MOST_LEASES_AHEAD * LEASE_S
        return is_valid and not _is_gone(claim.owner)


def _is_gone(owner: str) -> bool:
    """Return whether the owner's process is known to have ended.

    This is never known for other machines.
    """
    machine, _, process_and_run = owner.partition(" ")
    pid, _, _ = process_and_run.partition(" ")
    if machine != _machine() or not pid.isdecimal():
        return False
    return not psutil.pid_exists(int(pid))


def _machine() -> str:
    """Identify this machine, its current boot and this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join("".join(part.split()) for part in parts)


@dataclass
class _Lookup:
    """The state of prompts in the database.

    Attributes:
        free: Prompts that this run claims.
        settled: Judgements that other processes have stored, by key.
        busy: Prompts that other processes have claimed.
    """

    free: list[str] = field(default_factory=list)
    settled: dict[str, Judgement] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)


class PromptLeases:
    """The prompts of one run, by cache key, coordinated with the runs of other processes.

    - Many slots wait for one disk. Therefore one transaction stores their results and claims their
      next prompts.
    - If the cache fails, a warning is logged, and the remaining prompts are requested without
      claims.
    """

    def __init__(
        self,
        keys: Iterable[str],
        cache: JudgementCache,
        read: Callable[[Judgement], Judgement | None],
        settled: Callable[[str, Judgement], None],
    ) -> None:
        """Offer the prompts in this order.

        Args:
            keys: cache keys of the prompts.
            cache: the open database.
            read: converts an outcome that another process stored; None if it does not count for
                this run.
            settled: called with key and judgement of each prompt that another process has finished.
        """
        self._open = OrderedDict.fromkeys(keys)
        self._busy: OrderedDict[str, None] = OrderedDict()
        self._claimed: deque[str] = deque()
        self._finished: dict[str, Judgement | None] = {}
        self._cache = cache
        self._claims = ClaimTable(cache)
        self._read = read
        self._settled = settled
        self._renewed = -math.inf
        self._looked = -math.inf
        self._num_waiting = 0
        self._is_failing = False
        self._has_warned = False
        self._is_stopped = False

    @property
    def is_drained(self) -> bool:
        """True if this run takes no more prompts, except those claimed by other processes."""
        return self._is_stopped or not (self._open or self._claimed)

    @property
    def num_busy(self) -> int:
        """Number of prompts that other processes have claimed; 0 if all slots are used."""
        is_idle = self._num_waiting > 0 and not self._open
        return len(self._busy) if is_idle else 0

    async def __aenter__(self) -> "PromptLeases":
        self._lock = asyncio.Lock()
        self._renewing = asyncio.create_task(self._renew_until_cancelled())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store all results and release all claims, even if the caller is cancelled meanwhile."""
        self._renewing.cancel()
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    def stop(self) -> None:
        """Offer no more prompts, not even those that other processes have claimed."""
        self._is_stopped = True

    async def take(self) -> str | None:
        """Return the key of the next prompt.

        Returns None if no prompt is left and all results are stored, or after `stop`.

        Raises:
            Exception: any error from reading an outcome of another process.
        """
        self._num_waiting += 1
        try:
            while True:
                if not (self._is_failing or self._is_stopped):
                    await asyncio.shield(self._claim())
                if self._is_stopped:
                    return None
                if self._claimed:
                    return self._claimed.popleft()
                remaining = self._open or self._busy
                if not remaining:
                    return None
                if self._is_failing:
                    return remaining.popitem(last=False)[0]
                # At most 1,000 checks per second.
                await asyncio.sleep(max(_POLL_S, self._num_waiting / 1000))
        finally:
            self._num_waiting -= 1

    def finish(self, key: str, judgement: Judgement | None) -> None:
        """Finish a prompt.

        With None for the judgement, nothing is stored, and another process may request it.
        """
        self._finished[key] = judgement

    # The caller of these three may be cancelled, but the transaction in its thread may not.
    # Therefore they are called through `asyncio.shield`.

    async def _claim(self) -> None:
        """Store results, and claim prompts for all waiting slots."""
        async with self._lock:
            if not self._is_failing:
                num_free = self._num_waiting - len(self._claimed)
                await self._run(functools.partial(self._store_and_claim, num_free))

    async def _renew(self) -> None:
        """Store results, also after a failure, and renew claims."""
        async with self._lock:
            await self._run(self._store_and_renew)

    async def _close(self) -> None:
        """Store results, and release all claims."""
        async with self._lock:
            await self._run(self._store_and_release)

    async def _renew_until_cancelled(self) -> None:
        while True:
            await asyncio.sleep(min(_POLL_S, LEASE_S / 3))
            await asyncio.shield(self._renew())

    async def _run(self, transact: Callable[[], Mapping[str, Judgement]]) -> None:
        """Run a transaction in a thread, and pass on what other processes have stored."""
        try:
            settled = await asyncio.to_thread(transact)
        except CacheError as error:
            self._is_failing = True
            # The run still returns these judgements. Only a repeated run would request them again.
            if not self._has_warned:
                logger.warning(f"Judgements are not stored: {error}")
            self._has_warned = True
            return
        self._is_failing = False
        for key, judgement in settled.items():
            self._settled(key, judgement)

    def _store_and_claim(self, num_free: int) -> Mapping[str, Judgement]:
        """Store results, and claim prompts for this number of slots.

        Returns the judgements that other processes have stored.
        """
        # One lookup of the prompts of other processes serves all slots.
        is_lookup_due = bool(self._busy) and time.monotonic() - self._looked > _POLL_S / 2
        if num_free <= 0 or not (self._open or is_lookup_due):
            return self._store_and_renew()
        with self._storing() as now:
            lookup = self._look_up(num_free)
            self._claims.add(lookup.free, now)
        self._looked = time.monotonic()
        self._sort(lookup)
        return lookup.settled

    def _store_and_renew(self) -> Mapping[str, Judgement]:
        """Store results, and renew claims if that is due."""
        if self._finished or self._is_renewal_due():
            with self._storing():
                pass
        return {}

    def _store_and_release(self) -> Mapping[str, Judgement]:
        """Store results, and release all claims."""
        with self._storing():
            self._claims.release_all()
        return {}

    @contextmanager
    def _storing(self) -> Iterator[float]:
        """Store all results, and renew claims if due, in one transaction with the block's writes.

        Yields the time at its start.
        """
        finished = dict(self._finished)
        results = {}
        unanswered = []
        for key, judgement in finished.items():
            if judgement is None:
                unanswered.append(key)
            else:
                results[key] = judgement
        with self._cache.transaction():
            now = time.time()  # after waiting for the lock
            is_renewal_due = self._is_renewal_due()
            self._cache.store(results)
            self._claims.release(unanswered)
            if is_renewal_due:
                self._claims.extend(now)
            yield now
        if is_renewal_due:
            self._renewed = now
        for key in finished:
            del self._finished[key]

    def _is_renewal_due(self) -> bool:
        return not 0 <= time.time() - self._renewed < LEASE_S / 3

    def _look_up(self, num_free: int) -> _Lookup:
        """Look prompts up until this number of them is free. Open prompts come first."""
        lookup = _Lookup()
        candidates = chain(self._open, self._busy)
        while len(lookup.free) < num_free:
            keys = [*islice(candidates, _LOOKUP_SIZE)]
            if not keys:
                break
            settled = self._stored_by_others(keys)
            held_by_others = self._claims.held_by_others(keys)
            lookup.settled |= settled
            for key in keys:
                if key in settled:
                    continue
                if key in held_by_others:
                    lookup.busy.append(key)
                elif len(lookup.free) < num_free:
                    lookup.free.append(key)
        return lookup

    def _stored_by_others(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Return the stored outcomes that count for this run, by key."""
        judgements = {}
        # A reply counts more than a later failure, if it can be read.
        for outcomes in (self._cache.load_failures(keys), self._cache.load(keys)):
            for key, outcome in outcomes.items():
                judgement = self._read(outcome)
                if judgement is not None:
                    judgements[key] = judgement
        return judgements

    def _sort(self, lookup: _Lookup) -> None:
        """Move the prompts of a lookup to those that are claimed, settled or busy."""
        for key in (*lookup.free, *lookup.settled, *lookup.busy):
            self._open.pop(key, None)
            self._busy.pop(key, None)
        self._claimed += lookup.free
        for key in lookup.busy:
            self._busy[key] = None
