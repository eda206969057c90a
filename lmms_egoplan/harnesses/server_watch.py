"""Watch a server while requests are pending: report that it no longer answers, and wait for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from loguru import logger

from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError, RetryPolicy

# Default time to wait for a server that no longer answers, in seconds: a restart with a large model
# takes minutes.
SERVER_WAIT_S = 300.0

# The server is asked this often, and must answer in this time. A dead server is reported after at
# most their sum.
_CHECK_EVERY_S = 3.0
_ANSWERS_IN_S = 5.0

# For checks. The retry is for servers that close an idle connection while the next request is on
# its way.
CHECKING = RetryPolicy(retries=1, read_s=_ANSWERS_IN_S, retry_after_s=0.0, longer_s=0.0)


class ServerWatch:
    """The state of a server, for the coroutines of one event loop.

    Args:
        loop: The event loop.
        where: The server's address, for messages.
        check: Sends a short request.
        wait_s: Seconds to wait for a server that no longer answers.

    Attributes:
        losses: How often the server was lost so far.
        given_up: Done once the server was lost for `wait_s`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        where: str,
        check: Callable[[], Awaitable[Any]],
        wait_s: float,
    ) -> None:
        self.losses = 0
        self.given_up: asyncio.Future[str] = loop.create_future()
        self._where = where
        self._check = check
        self._wait_s = wait_s
        self._is_reachable = asyncio.Event()
        self._is_reachable.set()
        self._lost_at = 0.0

    async def run(self) -> None:
        """Check the server until cancelled, or until it is given up."""
        while not self.given_up.done():
            await asyncio.sleep(_CHECK_EVERY_S)
            problem = await self._problem()
            if problem is None:
                self._note_answer()
            else:
                self._note_failure(problem)

    async def reachable(self) -> None:
        """Wait until the server answers.

        Raises:
            NoAnswerError: It did not answer for too long.
        """
        waiting: asyncio.Future[Any] = asyncio.ensure_future(self._is_reachable.wait())
        futures: set[asyncio.Future[Any]] = {waiting, self.given_up}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.given_up.done():
            raise NoAnswerError(
                f"{self.given_up.result()} Waited {self._wait_s:g} s (server_wait)", may_pass=False
            )

    async def _problem(self) -> str | None:
        """Return why the server does not answer.

        None if it does, even with an error or that it is too busy.
        """
        try:
            await asyncio.wait_for(self._check(), _ANSWERS_IN_S)
        except asyncio.TimeoutError:
            return f"No answer within {_ANSWERS_IN_S:g} s."
        except NoAnswerError as error:
            return None if error.is_busy else f"{error}."
        except EndpointError:
            return None
        return None

    def _note_answer(self) -> None:
        if not self._is_reachable.is_set():
            logger.info(
                f"The server at {self._where} answers again, after "
                f"{time.monotonic() - self._lost_at:.0f} s"
            )
        self._is_reachable.set()

    def _note_failure(self, problem: str) -> None:
        if self._is_reachable.is_set():
            self.losses += 1
            self._lost_at = time.monotonic()
            self._is_reachable.clear()
            logger.warning(
                f"The server at {self._where} does not answer: {problem} Start it again: the run "
                f"continues if it answers within {self._wait_s:g} s (server_wait)"
            )
        if time.monotonic() - self._lost_at >= self._wait_s:
            self.given_up.set_result(problem)
