"""Decide whether a request is repeated after a failure, and when."""

import random
from dataclasses import replace

from anyio import current_time

from lmms_egoplan.judging.endpoint import NoAnswerError, RetryPolicy

# Waits before a retry double from the first to the longest, minus random jitter of up to a quarter.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class Retries:
    """The failures of one request, under a policy.

    Attributes:
        deadline: End of all attempts, on the clock of `anyio`. It moves while the endpoint replies
            503.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        """Begin with the first attempt."""
        started = current_time()
        self.deadline = started + policy.total_s
        self._policy = policy
        self._loading_end = started + policy.loading_s
        self._last_start = self._loading_end - _LONGEST_WAIT_S  # leaves time for a last attempt
        self._backoff_s = _FIRST_WAIT_S
        self._failures: list[NoAnswerError] = []

    def wait_after(self, failure: NoAnswerError) -> float | None:
        """Count a failure.

        Returns the seconds to wait before the next attempt; None if the request is not repeated.
        """
        if not failure.may_pass:
            return None
        wait_s = failure.wait_s or self._backoff_s * (1 - random.random() / 4)
        self._backoff_s = min(2 * self._backoff_s, _LONGEST_WAIT_S)
        if self._is_loading(failure):
            return self._wait_while_loading(failure, wait_s)
        self._failures.append(failure)
        return wait_s if self._is_within_policy() else None

    def rest(self) -> RetryPolicy:
        """Return the policy with the time that is left, for a request that continues this one."""
        now = current_time()
        return replace(
            self._policy,
            total_s=max(0.0, self.deadline - now),
            loading_s=max(0.0, self._loading_end - now),
        )

    def _is_loading(self, failure: NoAnswerError) -> bool:
        """Return whether the endpoint may be loading its model."""
        return failure.is_loading and self._policy.loading_s > 0

    def _wait_while_loading(self, failure: NoAnswerError, wait_s: float) -> float | None:
        """Move the deadline; return the wait, cut so that one more attempt fits."""
        now = current_time()
        self.deadline = min(now + failure.wait_s + self._policy.total_s, self._loading_end)
        if now >= self._last_start:
            return None
        return min(wait_s, self._last_start - now)

    def _is_within_policy(self) -> bool:
        """Return whether the failures so far allow another attempt."""
        policy = self._policy
        long_waits = []
        num_retries = 0
        num_timeouts = 0
        for failure in self._failures:
            if failure.wait_s > policy.retry_after_s:
                long_waits.append(failure.wait_s)
            else:
                num_retries += 1
            if failure.is_late:
                num_timeouts += 1
        return (
            num_retries <= policy.retries
            and num_timeouts <= policy.timeouts
            and sum(long_waits) <= policy.longer_s
        )
