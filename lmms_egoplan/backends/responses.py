"""What the backend answers to a ``loglikelihood`` request."""

from lmms_egoplan.loglikelihood import LoglikelihoodText


class LoglikelihoodResponse(LoglikelihoodText):
    """`LoglikelihoodText` that stays one on its way to the scoring.

    lmms-eval's command line strips every response of reasoning tags and white space before it is scored, which
    would leave a plain `str`, and that its own ``multiple_choice`` scoring cannot unpack.
    """

    __slots__ = ()

    def strip(self, chars: str | None = None) -> "LoglikelihoodResponse":
        return self
