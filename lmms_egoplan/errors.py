"""The root of errors that a user can correct."""


class LmmsEgoplanError(ValueError):
    """An error that the user can correct: the message names file, record and field, and says what to do."""
