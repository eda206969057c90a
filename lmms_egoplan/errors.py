"""The base class of all errors that a user can correct."""


class LmmsEgoplanError(ValueError):
    """An error that the user can correct.

    The message names file, record and field, and says what to do.
    """
