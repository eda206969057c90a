"""What the package raises where the user can mend something."""


class LmmsEgoplanError(ValueError):
    """Something that the user can mend: the message names file, record and field, and says what to do."""
