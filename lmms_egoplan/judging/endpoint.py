"""Define how long to wait for an endpoint, and the errors that it can cause."""

import math
from dataclasses import dataclass, field

_JUDGE_VARIABLES = (
    "Check LMMS_EGOPLAN_JUDGE_MODEL, LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY "
    "(or the harness's variables that replace them)"
)


@dataclass(frozen=True)
class RetryPolicy:
    """Limits on retries and waits for an endpoint.

    Attributes:
        retries: Maximum number of retries per request.
        read_s: Maximum seconds to wait for an answer. `JudgeSettings.timeout` applies if it is
            shorter.
        retry_after_s: Longest ``Retry-After`` that counts as an ordinary retry, in seconds.
        longer_s: Maximum total of longer ``Retry-After`` waits per request, in seconds.
        timeouts: Maximum number of retries after a timeout.
        total_s: Maximum seconds for a request with its retries.
        loading_s: The same while the endpoint replies 503, because it may be loading its model; 0
            to treat 503 like other failures. After the last such reply and its ``Retry-After``,
            `total_s` applies again. A longer ``Retry-After`` is cut so that one more attempt fits.
    """

    retries: int
    read_s: float
    retry_after_s: float
    longer_s: float
    timeouts: int = 2
    total_s: float = math.inf
    loading_s: float = 0.0


# All waits between retries add up to just over a minute, the window of most rate limits.
JUDGING = RetryPolicy(retries=12, read_s=math.inf, retry_after_s=120.0, longer_s=1800.0)
# The user waits for the probe. It reports an unknown host after about 2 s, and dropped connections
# after 30 s.
PROBING = RetryPolicy(
    retries=2,
    read_s=60.0,
    retry_after_s=5.0,
    longer_s=0.0,
    timeouts=0,
    total_s=60.0,
    loading_s=300.0,
)


@dataclass
class LearntForms:
    """Forms of requests that models were found to need, by address and model.

    Attributes:
        limit_names: The name of the token limit that a model accepts.
        without_schema: Models that refuse a JSON schema for the reply.
    """

    limit_names: dict[tuple[str, str], str] = field(default_factory=dict)
    without_schema: set[tuple[str, str]] = field(default_factory=set)


class EndpointError(Exception):
    """The endpoint refuses all requests, or this environment cannot reach it.

    Attributes:
        what: Verb for messages, such as "refuses".
        remedy: What to do.
    """

    def __init__(self, message: str, what: str = "refuses", remedy: str = _JUDGE_VARIABLES) -> None:
        super().__init__(message)
        self.what = what
        self.remedy = remedy


class RefusedRequestError(EndpointError):
    """The endpoint refuses this request with HTTP 400, 413 or 422.

    Attributes:
        is_filtered: True if its content filter refuses the prompt.
    """

    def __init__(self, message: str, *, is_filtered: bool = False) -> None:
        super().__init__(message)
        self.is_filtered = is_filtered


class NoAnswerError(EndpointError):
    """The endpoint was unreachable, too busy or failing on every attempt.

    Attributes:
        wait_s: Seconds of the endpoint's ``Retry-After``; 0 without one.
        is_late: True if no complete answer arrived in time.
        is_busy: True if the endpoint accepts the key but was too busy (429).
        is_loading: True if the endpoint replied 503.
        may_pass: True if a retry may succeed.
    """

    def __init__(
        self,
        message: str,
        *,
        wait_s: float = 0.0,
        is_late: bool = False,
        is_busy: bool = False,
        is_loading: bool = False,
        may_pass: bool = True,
    ) -> None:
        super().__init__(message, "does not answer")
        self.wait_s = wait_s
        self.is_late = is_late
        self.is_busy = is_busy
        self.is_loading = is_loading
        self.may_pass = may_pass
