"""Pass a generated reply to scoring together with whether the limit on new tokens ended it.

Harnesses pass a reply to scoring as text.
"""

from typing import Any


class GeneratedReply(str):
    """A reply of the evaluated model.

    Attributes:
        truncated: True if the limit on new tokens ended the reply; None if unknown.
    """

    truncated: bool | None

    def __new__(  # Pickles pass both by position.
        cls,
        text: str,
        truncated: bool | None,  # noqa: FBT001
    ) -> "GeneratedReply":
        """Create a reply from a text."""
        self = super().__new__(cls, text)
        self.truncated = truncated
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return GeneratedReply, (str(self), self.truncated)

    def strip(self, chars: str | None = None) -> "GeneratedReply":
        """Strip the text. lmms-eval strips every reply, which would turn it into a plain string."""
        return GeneratedReply(super().strip(chars), self.truncated)


def is_truncated(reply: str) -> bool | None:
    """Return whether the limit on new tokens ended a reply.

    Return None if that is unknown, as for a plain text.
    """
    return reply.truncated if isinstance(reply, GeneratedReply) else None
