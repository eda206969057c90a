"""Check image files, and encode images for a language model."""

import base64
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole


def check_image(data: bytes, where: str) -> None:
    """Decode an image file completely, regardless of Pillow's settings.

    Args:
        data: The file's bytes.
        where: Name of the image for the error message.

    Raises:
        LmmsEgoplanError: The file is not an image, or is damaged, truncated or empty.
    """
    lenient = ImageFile.LOAD_TRUNCATED_IMAGES  # harnesses set it for the whole process
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        with Image.open(BytesIO(data)) as image:
            image.load()
            ImageOps.exif_transpose(image)
    except UnidentifiedImageError as error:
        raise LmmsEgoplanError(
            f"{where}: not an image: the file is empty or of an unknown type"
        ) from error
    except Exception as error:  # Pillow's decoders raise many types of errors
        raise LmmsEgoplanError(
            f"{where}: cannot decode the image: {type(error).__name__}: {error}"
        ) from error
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = lenient


def jpeg(image: Image.Image, quality: int) -> bytes:
    """Return the bytes of a JPEG file."""
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def jpeg_url(image: Image.Image, longer_side: int, quality: int = 85) -> str:
    """Return the data URL of an image as an RGB JPEG file.

    Its longer side has at most `longer_side` pixels.
    """
    small = image.convert("RGB")
    small.thumbnail((longer_side, longer_side))
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg(small, quality)).decode()}"


def write_jpeg(path: Path, image: Image.Image, quality: int) -> None:
    """Write a JPEG file completely or not at all; raises like `write_whole`."""
    write_whole(path, jpeg(image, quality))
