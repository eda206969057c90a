"""The clock of the records' frame numbers: frames that they count for a second of a video."""

import re

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS

# EPIC-KITCHENS-100's newer videos, such as P01_103, have 50 frames a second. The frames of the older ones, such as
# P01_13, were extracted at 60, whatever the video itself has: 59.94, and in nine videos 29.97, 47.95 or 90. So count
# the start and stop frames of EPIC_100_validation.csv. Ego4D's canonical videos have 30.
_NEWER = re.compile(r"P\d\d_1\d\d")
_EPIC_KITCHENS_FPS = {True: 50, False: 60}
EGO4D_FPS = 30


def frames_per_second(source: str, video_id: str) -> int:
    """Frames that the records count for a second of a video.

    >>> frames_per_second("EpicKitchens", "P01_13"), frames_per_second("EpicKitchens", "P01_103")
    (60, 50)
    """
    return _EPIC_KITCHENS_FPS[_NEWER.fullmatch(video_id) is not None] if source == EPIC_KITCHENS else EGO4D_FPS
