"""Create and store the images and clips for annotators."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Lock

from joblib import cpu_count
from PIL import Image, ImageOps

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, write_whole
from lmms_egoplan.media.frames import (
    FrameError,
    frame_path,
    read_frame_folder,
    read_video_frames,
    write_video,
)
from lmms_egoplan.media.image_files import write_jpeg
from lmms_egoplan.media.sampling import read_in_batches
from lmms_egoplan.progress import progress_bar

HEIGHT = 480
# Threads of each clip's encoder. The fixed number makes clips identical on all machines.
_THREADS = 2
_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "GIF": ".gif"}


@dataclass(frozen=True)
class KeptImage:
    """An image in the media folder, by file name (`MediaFolder.keep`)."""

    name: str


@dataclass(frozen=True)
class Still:
    """One frame of a video.

    Attributes:
        source: Video file, with frames counted from 0; or folder in EPIC-KITCHENS' layout, with
            frames counted from 1.
        frame: Number of the frame.
    """

    source: str
    frame: int


@dataclass(frozen=True)
class Cut:
    """Frames of a video as a clip. Annotators see no frame after the last of `frames`.

    Attributes:
        source: As for `Still`.
        frames: Frame numbers, ascending.
        fps: Frame rate of the clip.
    """

    source: str
    frames: tuple[int, ...]
    fps: float


Media = KeptImage | Still | Cut


class MediaFolder:
    """The media of a database, in a folder next to it.

    All files except kept images can be recreated.
    """

    def __init__(self, folder: Path, height: int = HEIGHT) -> None:
        """Initialize without creating files.

        Args:
            folder: The media folder.
            height: Maximum height of clips, pixels.
        """
        self._folder = folder
        self._height = height
        self._locks: dict[str, Lock] = {}

    def keep(self, content: bytes) -> KeptImage:
        """Store an image under a name derived from its contents.

        Raises:
            LmmsEgoplanError: Browsers cannot show the image.
            OSError: The folder cannot be written.
        """
        try:
            with Image.open(BytesIO(content)) as image:
                suffix = _SUFFIXES[image.format or ""]
        except (OSError, KeyError) as error:
            raise LmmsEgoplanError(f"browsers cannot show this image: {error}") from error
        self._create_folder()
        name = sha256(content).hexdigest()[:32] + suffix
        if not (self._folder / name).is_file():
            write_whole(self._folder / name, content)
        return KeptImage(name)

    def file(self, media: Media) -> Path:
        """Return the file to show. Frames and clips are created on the first call.

        Raises:
            FrameError: Frames are missing or damaged.
            OSError: The folder cannot be written.
        """
        if isinstance(media, KeptImage):
            path = self._folder / media.name
            if not path.is_file():
                raise FrameError(
                    f"{path}: the image is missing; restore it, or start with a new database"
                )
            return path
        path = self._folder / self._name(media)
        with self._locks.setdefault(path.name, Lock()):
            if not path.is_file():
                self._create_folder()
                _make(path, media, self._height)
        return path

    def _name(self, media: Still | Cut) -> str:
        """Return the name of a frame's or clip's file.

        It depends on the media, the version of the source, and for clips on the maximum height.
        """
        # Existing files are found by this text: keep the records' names, fields and order.
        if isinstance(media, Still):
            text = repr((media, _version(media.source, media.frame)))
            suffix = ".jpg"
        else:
            text = repr((media, _version(media.source, media.frames[-1]), self._height))
            suffix = ".mp4"
        return sha256(text.encode()).hexdigest()[:32] + suffix

    def make_all(self, media: Collection[Media]) -> list[str]:
        """Create all missing files in parallel, with a progress bar. Returns the problems."""
        problems = []

        def make(part: Media) -> None:
            try:
                self.file(part)
            except FrameError as error:
                problems.append(str(error))

        with progress_bar(len(media), "Cutting") as bar, ThreadPoolExecutor(cpu_count()) as pool:
            for _ in pool.map(make, media):
                bar.update()
        return sorted(problems)

    def _create_folder(self) -> None:
        """Create the folder with access for its owner only."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)


def _make(path: Path, media: Still | Cut, height: int) -> None:
    if isinstance(media, Cut):
        frames = read_in_batches(partial(_read, media.source), media.frames)
        images = (ImageOps.contain(image, (image.width, height)) for image in frames)
        write_video(path, images, media.fps, threads=_THREADS)
        return
    (image,) = _read(media.source, (media.frame,))
    write_jpeg(path, image, quality=92)


def _read(source: str, frames: Sequence[int]) -> list[Image.Image]:
    if Path(source).is_dir():
        return read_frame_folder(source, frames)
    return read_video_frames(source, frames)


def _version(source: str, last: int) -> str:
    path = frame_path(source, last) if Path(source).is_dir() else Path(source)
    try:
        return file_version(path.stat())
    except OSError as error:
        raise FrameError(f"{path}: cannot be read: {error.strerror}") from error
