"""Image files that others made: whether they can be decoded."""

from io import BytesIO

from lmms_egoplan.errors import LmmsEgoplanError


def check_image(data: bytes, where: str) -> None:
    """Decode an image file to its end.

    Args:
        data: the file's bytes.
        where: names the image in the message.

    Raises:
        LmmsEgoplanError: it is no image, or damaged, truncated or empty; whatever Pillow is set to let pass.
    """
    from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

    lenient = ImageFile.LOAD_TRUNCATED_IMAGES  # harnesses set it for the whole process
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        with Image.open(BytesIO(data)) as image:
            image.load()
            ImageOps.exif_transpose(image)
    except UnidentifiedImageError as error:
        raise LmmsEgoplanError(f"{where}: no image, or an empty or unknown file") from error
    except Exception as error:  # Pillow's decoders meet damage with errors of many kinds
        raise LmmsEgoplanError(f"{where}: cannot decode the image: {type(error).__name__}: {error}") from error
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = lenient
