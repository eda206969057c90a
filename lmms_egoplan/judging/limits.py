"""Limit the requests and the cost of judges and other language models."""

import asyncio

from lmms_egoplan.judging.endpoint import EndpointError
from lmms_egoplan.judging.variables import MAX_COST, MAX_REQUESTS

# Seconds between checks whether another request fits into the limit on the cost.
_TICK_S = 0.05


class LimitError(EndpointError):
    """A limit that the user has set is reached."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            "is asked no further",
            "Replies are stored: repeat the command to ask for the rest",
        )


class Limits:
    """The requests and the cost so far, and their limits.

    The cost of a request is known after its reply. Until then, it is assumed to be the highest cost
    of a request so far, or before the first reply its upper bound. Costs that grow can exceed the
    limit by the requests in flight.

    Attributes:
        requests: Number of requests, with repeats and retries.
        cost: Cost of the replies, in the currency of the prices.
    """

    def __init__(self, max_requests: int | None, max_cost: float | None) -> None:
        self.requests = 0
        self.cost = 0.0
        self._max_requests = max_requests
        self._max_cost = max_cost
        self._highest: float | None = None
        self._bounds = 0.0  # of the requests in flight
        self._in_flight = 0

    async def reserve(self, bound: float, *, waits: bool = True) -> None:
        """Count a request as soon as it fits into the limits.

        Args:
            bound: upper bound of its cost; 0 without a limit on the cost.
            waits: wait for requests in flight, and learn from their costs. If False, the bounds of
                all requests count.

        Raises:
            LimitError: a limit is reached.
        """
        while True:
            self._check_requests()
            if waits and self._highest is not None:
                expected = self._highest
                in_flight = self._in_flight * expected
            else:
                expected = bound
                in_flight = self._bounds
            if self._max_cost is None or self.cost + in_flight + expected <= self._max_cost:
                break
            if not (waits and self._in_flight):
                raise LimitError(
                    f"{self.cost:.4g} of {self._max_cost:g} is spent, and another request may "
                    f"cost {expected:.2g} (--max-cost or {MAX_COST})"
                )
            await asyncio.sleep(_TICK_S)
        self.requests += 1
        self._in_flight += 1
        self._bounds += bound

    def release(self, bound: float) -> None:
        """End a request with this upper bound."""
        self._in_flight -= 1
        self._bounds = self._bounds - bound if self._in_flight else 0.0

    def pay(self, cost: float | None, *, is_typical: bool = True) -> None:
        """Add the cost of a reply; None if the endpoint does not report its tokens.

        Args:
            cost: the cost.
            is_typical: assume that later requests may cost as much.

        Raises:
            LimitError: there is a limit on the cost, but the cost is unknown.
        """
        if cost is None:
            if self._max_cost is not None:
                raise LimitError(
                    f"it reports no numbers of tokens, so --max-cost ({MAX_COST}) cannot be "
                    f"observed; use --max-requests ({MAX_REQUESTS})"
                )
            return
        self.cost += cost
        if is_typical:
            self._highest = max(self._highest or 0.0, cost)

    def retry(self) -> None:
        """Count a retry of a request after it failed.

        Raises:
            LimitError: the limit on requests is reached.
        """
        self._check_requests()
        self.requests += 1

    def _check_requests(self) -> None:
        if self._max_requests is not None and self.requests >= self._max_requests:
            raise LimitError(
                f"{self.requests} requests are sent (--max-requests or {MAX_REQUESTS})"
            )
