"""What an instance is: its id, its setting (sec. 3.3) and the type of its activity (sec. 3.4)."""

import re
from dataclasses import dataclass

from lmms_egoplan.validation import is_text

# By the number of the task description.
SETTINGS = ("normal", "counterfactual")
# Sec. 3.4, in its order.
ACTIVITY_TYPES = ("cleaning", "filling", "packing", "putting away", "storing", "other")

# Without leading zeros: two folders never have the same number.
_SAMPLE = re.compile("sample_(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, order=True)
class InstanceId:
    """Which instance: ``<scene>/<activity>/<description>/sample_<sample>``; ordered by these four.

    scene: household environment of iGibson 2, as ``Beechwood_0_int``.
    activity: as ``making_tea``.
    description: 0 for the normal activity, 1 for the counterfactual one.
    sample: which sampling of the activity in the scene, from 0 (sec. 3.4).
    """

    scene: str
    activity: str
    description: int
    sample: int

    @property
    def setting(self) -> str:
        """One of `SETTINGS`."""
        return SETTINGS[self.description]

    def __str__(self) -> str:
        return f"{self.scene}/{self.activity}/{self.description}/sample_{self.sample}"


def parse_id(text: str) -> InstanceId | None:
    """Read an id as `InstanceId` writes it, with or without folders before it; None if it is none."""
    *_, scene, activity, description, sample = ["", "", "", "", *text.split("/")]
    match = _SAMPLE.fullmatch(sample)
    named = all(is_text(name) and name not in (".", "..") for name in (scene, activity))
    if match is None or not named or description not in ("0", "1"):
        return None
    return InstanceId(scene, activity, int(description), int(match[1]))


def activity_type(activity: str) -> str:
    """Return the one of `ACTIVITY_TYPES` that fits an activity's name.

    Sec. 3.4 names the types without assigning activities; ``cleaning_...``, ``filling_...``, ``packing_...``,
    ``storing_...``, ``putting_away_...`` and ``putting_..._away`` are theirs, all others are ``other``.
    """
    if named := re.fullmatch("(cleaning|filling|packing|storing)_.*", activity, re.DOTALL):
        return named[1]
    is_put_away = re.fullmatch("putting_(.*_)?away(_.*)?", activity, re.DOTALL) is not None
    return "putting away" if is_put_away else "other"
