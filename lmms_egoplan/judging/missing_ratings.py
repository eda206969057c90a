"""The warning of answers that a judge has not rated."""

from collections.abc import Sequence

from loguru import logger

_LISTED = 20


def warn_of_missing_ratings(title: str, names: Sequence[str], asked: int, what: str) -> None:
    """One warning that names at most 20 of what is not judged, of `asked` in all; none where there is nothing to tell.

    Args:
        title: of what was judged.
        what: they are, in the plural.
    """
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        logger.warning(
            f"{title}: {len(names)} of {asked} {what} are not judged and left out of the scores: "
            f"{', '.join(names[:_LISTED])}{more}"
        )
