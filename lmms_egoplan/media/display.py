"""Show decoded frames as players do: with square pixels, turned or mirrored."""

from fractions import Fraction
from struct import unpack
from typing import TYPE_CHECKING

from PIL import Image
from PIL.Image import Transpose

if TYPE_CHECKING:
    from av import VideoFrame

HDR = {16: "PQ", 18: "HLG"}
"""Names of the transfer functions of HDR videos, by their numbers in ITU-T H.273, table 3."""

# For each display matrix of right angles, its first two columns of the first two rows, and what it
# does to an image.
_TURNS: dict[tuple[int, int, int, int], Transpose] = {
    (0, 1, -1, 0): Transpose.ROTATE_270,
    (-1, 0, 0, -1): Transpose.ROTATE_180,
    (0, -1, 1, 0): Transpose.ROTATE_90,
    (-1, 0, 0, 1): Transpose.FLIP_LEFT_RIGHT,
    (1, 0, 0, -1): Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Transpose.TRANSPOSE,
    (0, -1, -1, 0): Transpose.TRANSVERSE,
}


def as_shown(frame: "VideoFrame", pixel_aspect: Fraction) -> Image.Image:
    """Convert a decoded frame to an RGB image as a player shows it.

    Args:
        frame: The frame. Its display matrix, if it has one, says how to turn and mirror it; cameras
            turn by right angles, and other angles are rounded to them.
        pixel_aspect: Width of a pixel divided by its height, in the decoded frame. The shorter side
            is enlarged.
    """
    image = frame.to_image()
    if pixel_aspect != 1:
        width = round(image.width * max(pixel_aspect, 1))
        height = round(image.height / min(pixel_aspect, 1))
        image = image.resize((width, height))
    matrix = frame.side_data.get("DISPLAYMATRIX")
    turn = None if matrix is None else _TURNS.get(_right_angles(bytes(matrix)))
    return image if turn is None else image.transpose(turn)


def _right_angles(matrix: bytes) -> tuple[int, int, int, int]:
    """Return the signs of the entries that turn and mirror, for the nearest right angle."""
    a, b, _, c, d, *_ = unpack("9i", matrix)
    if abs(a) + abs(d) < abs(b) + abs(c):
        return 0, _sign(b), _sign(c), 0
    return _sign(a), 0, 0, _sign(d)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
