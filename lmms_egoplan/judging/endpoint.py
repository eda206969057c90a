"""How an endpoint is waited for, and how it fails."""

import math
from dataclasses import dataclass

_JUDGE_VARIABLES = (
    "LMMS_EGOPLAN_JUDGE_MODEL, LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY (or the variables that stand "
    "in for them)"
)


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is waited for.

    retries: how often a request is sent again.
    timeouts: how often of these because no answer came in time.
    read_s: seconds after which a request without an answer counts as lost; less where `JudgeSettings.timeout` is.
    retry_after_s: the longest ``Retry-After`` that counts as a usual wait before a retry.
    longer_s: longer ones are waited for, too, up to this sum of seconds for one answer.
    """

    retries: int
    read_s: float
    retry_after_s: float
    longer_s: float
    timeouts: int = 2


# The waits between retries make a little over a minute, which is the window of most rate limits.
JUDGING = Patience(retries=12, read_s=math.inf, retry_after_s=120.0, longer_s=1800.0)
# Someone waits for the probe: an unknown host is told after some 2 s, one that drops connections after half a minute.
PROBING = Patience(retries=2, read_s=60.0, retry_after_s=5.0, longer_s=0.0)


class EndpointError(Exception):
    """A request has not been answered: the endpoint refuses all, or cannot be asked from this environment.

    what: what the endpoint does instead, for messages; check: the variables to look at.
    """

    def __init__(self, message: str, what: str = "refuses", check: str = _JUDGE_VARIABLES) -> None:
        super().__init__(message)
        self.what, self.check = what, check


class RefusedRequestError(EndpointError):
    """The endpoint refuses this request: 400, 413 or 422."""


class NoAnswerError(EndpointError):
    """The endpoint could not be reached, was too busy or failed, each time that it was asked.

    wait_s: seconds that the endpoint asks to wait; 0 if it does not.
    is_late: whether no whole answer came in time.
    is_busy: whether the endpoint is there and knows the key, but was too busy (429).
    may_pass: whether the request is worth sending again.
    """

    def __init__(
        self, message: str, *, wait_s: float = 0.0, is_late: bool = False, is_busy: bool = False, may_pass: bool = True
    ) -> None:
        super().__init__(message, "does not answer")
        self.wait_s, self.is_late, self.is_busy, self.may_pass = wait_s, is_late, is_busy, may_pass
