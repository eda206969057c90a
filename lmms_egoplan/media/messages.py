"""Build chat messages from a task's text and its visuals.

Visuals are images, videos, paths to either, or lists of frames.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.media.frames import Clip, frame_times, read_video_frames
from lmms_egoplan.memory_ahead import reserve_for
from lmms_egoplan.text import MediaMarker

IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
IMAGE_PLACEHOLDER = "<image>"


class MediaLoader:
    """Load a task's visuals as content items of a chat message.

    Args:
        max_frames_num: Maximum number of frames from a video file, evenly spaced, including the
            last. Frames chosen by a task are never subsampled.
        takes_video: Whether the model accepts videos. If not, a video becomes images. A single
            frame is always an image.
    """

    def __init__(self, max_frames_num: int, *, takes_video: bool) -> None:
        self._takes_video = takes_video
        self._max_frames_num = max_frames_num

    def messages(self, text: str, visuals: Sequence[Any]) -> list[dict[str, Any]]:
        """Return one user turn: the media first, then the text.

        If the text has exactly one ``<image>`` per visual, each visual replaces its placeholder.

        Raises:
            TypeError: A visual is not an image, a path or a list of frames.
        """
        if not any(_is_path(visual) for visual in visuals):  # paths reserve memory when read
            images = [visual for visual in visuals if isinstance(visual, Image.Image)]
            reserve_for(images, is_known=True)
        items = [self.items(visual) for visual in visuals]
        pieces = text.split(IMAGE_PLACEHOLDER)
        if visuals and len(pieces) == len(visuals) + 1:
            content = [_text(pieces[0])]
            for media, piece in zip(items, pieces[1:], strict=True):
                content += [*media, _text(piece)]
        else:
            content = [*(item for media in items for item in media), _text(text)]
        # Some templates read the first item, so a turn without text and media has an empty text.
        return [
            {
                "role": "user",
                "content": [item for item in content if item.get("text") != ""] or [_text("")],
            }
        ]

    def items(self, visual: Any) -> list[dict[str, Any]]:
        """Return the content items of one visual: a video, or images.

        A `MediaMarker` among the visuals becomes text.

        Raises:
            TypeError: The visual is not an image, a path or a list of frames.
        """
        if isinstance(visual, Image.Image):
            return [{"type": "image", "image": rgb(visual)}]
        if isinstance(visual, MediaMarker):
            return [_text(visual)]
        if isinstance(visual, (str, Path)):
            path = Path(visual)
            if path.suffix.lower() in IMAGE_SUFFIXES:
                with Image.open(path) as image:
                    reserve_for([image])
                    return self.items(image)
            return self._video_items(self._read_video(path))
        if (
            isinstance(visual, (list, tuple))
            and visual
            and all(isinstance(v, Image.Image) for v in visual)
        ):
            return self._video_items(Clip(map(rgb, visual), getattr(visual, "fps", None)))
        raise TypeError(
            "expected an image, the path of an image or a video, or a list of frames, "
            f"got {type(visual).__name__}"
        )

    def _video_items(self, frames: Clip) -> list[dict[str, Any]]:
        if self._takes_video and len(frames) > 1:  # some video processors reject a single frame
            return [{"type": "video", "video": frames}]
        return [{"type": "image", "image": frame} for frame in frames]

    def _read_video(self, path: Path) -> Clip:
        times = frame_times(path)
        positions = _evenly_spaced(len(times), self._max_frames_num)
        span = times[positions[-1]] - times[positions[0]]
        return Clip(
            read_video_frames(path, positions), (len(positions) - 1) / span if span else None
        )


def rgb(image: Image.Image) -> Image.Image:
    """Return an image in memory as RGB; the same object if it already is."""
    return image if type(image) is Image.Image and image.mode == "RGB" else image.convert("RGB")


def _is_path(visual: Any) -> bool:
    return isinstance(visual, (str, Path)) and not isinstance(visual, MediaMarker)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return at most `limit` of `count` indices, evenly spaced, including first and last.

    A limit of 1 gives the last.
    """
    if count <= limit:
        return list(range(count))
    if limit == 1:
        return [count - 1]
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]
