"""Read masks or boxes of EgoThink's images, and draw them as numbered marks (sec. 5.1, Fig. 9).

The paper follows Set-of-Mark (arXiv:2310.11441) and refers to its Appendix F, which was not
available to this project. The look of the marks and `SENTENCE` are therefore this project's. No
segmentation model is included.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps
from scipy import ndimage

from lmms_egoplan.benchmarks.egothink.records import Record
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.progress import track
from lmms_egoplan.validation import quoted, read_as, refuse

SENTENCE = (
    "Numbered outlines in the image mark regions; they were added to help you to locate things."
)
"""Explains the marks to the model, before the question. This project's wording."""


def explained(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with `SENTENCE` before its question.

    >>> explained({"question": "What am I holding?"})["question"].removeprefix(SENTENCE)
    ' What am I holding?'
    """
    question = f"{SENTENCE} {doc['question']}"
    return {**doc, "question": question}


def marked_records(records: Collection[Record], folder: Path) -> list[Record]:
    """Return the questions whose image has marks, with the marked image as PNG.

    Args:
        records: Questions.
        folder: Folder with a file for each image with marks, see `read_marks`: ``existence/1.json``
            (or png) for the question ``existence/1``.

    Raises:
        LmmsEgoplanError: A file is invalid or belongs to no question, or no question has marks.
    """
    files = sorted(path for path in folder.glob("*/*") if path.suffix in (".json", ".png"))
    file_by_id = {f"{path.parent.name}/{path.stem}": path for path in files}
    with_file = [record for record in records if record.id in file_by_id]
    marked: list[Record] = []
    problems: list[str] = []
    for record in track(with_file, "Drawing marks"):
        try:
            image = _marked_png(record.image, file_by_id[record.id])
        except LmmsEgoplanError as error:
            problems.append(str(error))
        else:
            marked.append(replace(record, image=image))
    used = {file_by_id[record.id] for record in with_file}
    unused = [path for path in files if path not in used]
    if not unused and not with_file:
        unused = [folder]
    for path in unused:
        problems.append(
            f"{path}: no marks of a question; expected one file per image, existence/1.json"
        )
    refuse(problems, "", f"{folder}: {len(problems)} problems:")
    return marked


def _marked_png(image_file: bytes, marks_file: Path) -> bytes:
    """Draw the marks of a file on an image, and return it as PNG."""
    image = ImageOps.exif_transpose(Image.open(BytesIO(image_file)))
    masks = read_marks(marks_file, image.size)
    marked = draw_marks(image, masks)
    png = BytesIO()
    marked.save(png, "PNG")
    return png.getvalue()


def read_marks(path: Path, size: tuple[int, int]) -> dict[int, NDArray[np.bool_]]:
    """Return the masks in a file by their numbers; each has the image's height and width.

    Args:
        path: A file of one of these forms:

            - JSON: a list, or an object with the list ``annotations``, as SAM writes it. An entry
              is a box ``[x, y, width, height]``, or an object with ``segmentation`` (COCO's RLE,
              compressed or not, or polygons) or else ``bbox``. Its number is its position, from 1.
              Boxes and polygons include their edges.
            - PNG with one channel: a label map. A number above 0 is a mark; others are background.
        size: Width and height of the image.

    Raises:
        LmmsEgoplanError: The file is invalid or has no mark, or a mark is empty or does not fit the
            image. The message has file, entry and field.
    """
    read = _read_annotations if path.suffix == ".json" else _read_label_map
    masks = read(path, size)
    for number, mask in masks.items():
        if not mask.any():
            raise LmmsEgoplanError(f"{path}, entry {number}: empty mask; remove it")
    if not masks:
        raise LmmsEgoplanError(f"{path}: no marks; remove the file to omit the question")
    return masks


def _read_annotations(path: Path, size: tuple[int, int]) -> dict[int, NDArray[np.bool_]]:
    content = read_json(path, "marks")
    if isinstance(content, dict):
        content = content.get("annotations")
    entries = read_as(list[Any], str(path), content)
    masks = {}
    for number, entry in enumerate(entries, 1):
        masks[number] = _read_mask(f"{path}, entry {number}", entry, size)
    return masks


def _read_label_map(path: Path, size: tuple[int, int]) -> dict[int, NDArray[np.bool_]]:
    check_image(path.read_bytes(), str(path))
    labels = np.asarray(Image.open(path))
    width, height = size
    if labels.shape != (height, width):
        raise LmmsEgoplanError(
            f"{path}: expected one channel of shape {(height, width)} (image), found {labels.shape}"
        )
    masks = {}
    for number in np.unique(labels):
        if number > 0:
            masks[int(number)] = labels == number
    return masks


def _read_mask(where: str, entry: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the pixels of an entry; see `read_marks`."""
    if not isinstance(entry, dict):
        entry = {"bbox": entry}
    name = "bbox"
    if entry.get("segmentation"):
        name = "segmentation"
    shape: Any = entry.get(name)
    try:
        if isinstance(shape, dict):
            return _decode_rle(shape, size)
        if name == "bbox":
            return _fill_box(shape, size)
        return _fill_polygons(shape, size)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        width, height = size
        raise LmmsEgoplanError(
            f"{where}, {name}: expected a box, RLE or polygons, found {quoted(shape)}, which does "
            f"not fit the image of {width} x {height} pixels ({error})"
        ) from error


def _decode_rle(rle: Mapping[str, Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the pixels of COCO's RLE, which counts them column by column from background on."""
    width, height = size
    runs = rle["counts"]
    if isinstance(runs, str):
        runs = decode_counts(runs)
    if rle["size"] != [height, width] or sum(runs) != width * height:
        raise ValueError(f"size {rle['size']}, {sum(runs)} pixels in counts")
    is_inside = np.arange(len(runs)) % 2 == 1
    pixels = np.repeat(is_inside, runs)
    return pixels.reshape(width, height).T


def _fill_box(box: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    x, y, width, height = box
    corners = [x, y, x + width, y + height]
    _check_inside(corners, size)
    mask = Image.new("1", size)
    ImageDraw.Draw(mask).rectangle(corners, fill=1)
    return np.array(mask)


def _fill_polygons(polygons: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    mask = Image.new("1", size)
    draw = ImageDraw.Draw(mask)
    for points in polygons:
        _check_inside(points, size)
        draw.polygon(points, fill=1)
    return np.array(mask)


def _check_inside(points: Any, size: tuple[int, int]) -> None:
    """Check coordinates x, y, x, y and so on.

    Raises:
        ValueError: A point lies outside of the image, or is not a number.
    """
    width, height = size
    is_positive = np.min(points) >= 0  # False for NaN
    if not is_positive:
        raise ValueError("outside")
    xs = points[::2]
    ys = points[1::2]
    if max(xs) > width or max(ys) > height:
        raise ValueError("outside")


def decode_counts(text: str) -> list[int]:
    """Return the run lengths of COCO's compressed RLE.

    A character has 5 bits of a number, the lowest first. From the fourth run on, numbers are
    differences to the run before the last one.

    >>> decode_counts("52203"), decode_counts("1O")
    ([5, 2, 2, 2, 5], [1, -1])
    """
    runs: list[int] = []
    value = 0
    shift = 0
    for character in text:
        code = ord(character) - 48
        value |= (code & 31) << shift
        shift += 5
        is_last = not code & 32
        if is_last:
            sign = (code >> 4) << shift  # the highest bit of a number's last character
            earlier = runs[-2] if len(runs) > 2 else 0
            runs.append(value - sign + earlier)
            value = 0
            shift = 0
    return runs


def draw_marks(image: Image.Image, masks: dict[int, NDArray[np.bool_]]) -> Image.Image:
    """Draw an outline and a number for each mask, smaller masks above larger ones.

    A number is at the pixel of its mask that is farthest from the outline and from smaller masks,
    or above a mask that is too thin for it.

    Args:
        image: The image, of any mode.
        masks: Masks by number, none empty.

    Returns:
        An RGB image. Pixels without outline or number are unchanged.

    >>> marked = draw_marks(Image.new("RGB", (60, 40), "white"), {7: np.ones((40, 60), bool)})
    >>> marked.size, marked.getpixel((0, 0)) != (255, 255, 255), marked.getpixel((3, 3))
    ((60, 40), True, (255, 255, 255))
    """
    marked = image.convert("RGB")
    width, height = image.size

    def area(number: int) -> int:
        return int(masks[number].sum())

    largest_first = sorted(masks, key=area, reverse=True)
    owners = np.zeros((height, width), int)  # number of the smallest mask at each pixel
    for number in largest_first:
        owners[masks[number]] = number
    for number in largest_first:
        _draw_mark(marked, number, masks[number], owners == number)
    return marked


def _draw_mark(
    image: Image.Image, number: int, mask: NDArray[np.bool_], visible: NDArray[np.bool_]
) -> None:
    """Draw the outline and the number of a mask.

    Args:
        image: The image, which is changed.
        number: Number of the mask.
        mask: Pixels of the mask.
        visible: Its pixels that no smaller mask covers.
    """
    # Computations on the mask's part of the image only.
    (part,) = ndimage.find_objects(mask.astype(np.uint8))
    rows, columns = part
    mask = mask[part]
    visible = visible[part]
    color = f"hsl({138 * number % 360}, 100%, 50%)"

    line_width = 1 + min(image.size) // 200
    interior = ndimage.binary_erosion(mask, iterations=line_width)
    outline = Image.fromarray(visible & ~interior)
    ImageDraw.Draw(image).bitmap((columns.start, rows.start), outline, color)

    place = visible if visible.any() else mask
    row, column, depth = _deepest_pixel(place)
    center = (columns.start + column, rows.start + row)
    _draw_number(image, number, center, depth, color)


def _draw_number(
    image: Image.Image, number: int, center: tuple[float, float], depth: float, color: str
) -> None:
    """Draw the number of a mask in a box.

    Args:
        image: The image, which is changed.
        number: Number of the mask.
        center: Where the number is, unless the mask is too thin for it or the image ends.
        depth: Distance of this pixel from the outside of the mask.
        color: Color of the mask.
    """
    font = ImageFont.load_default(max(9, min(image.size) // 28))
    right_and_bottom = font.getbbox(str(number))[2:]
    half_size = np.array(right_and_bottom) / 2 + 2
    half_height = half_size[1]
    x, y = center
    if depth <= half_height:  # too thin for the number
        y -= depth + half_height
    largest_center = np.array(image.size) - 1 - half_size
    center_inside = np.clip([x, y], half_size, largest_center)

    draw = ImageDraw.Draw(image)
    corners = (*(center_inside - half_size), *(center_inside + half_size))
    draw.rectangle(corners, fill="black", outline=color)
    draw.text(tuple(center_inside), str(number), fill="white", font=font, anchor="mm")


def _deepest_pixel(mask: NDArray[np.bool_]) -> tuple[int, int, float]:
    """Return row, column and distance of the pixel that is farthest from the outside of a mask."""
    padded = np.pad(mask, 1)
    distances = ndimage.distance_transform_edt(padded)[1:-1, 1:-1]
    row, column = np.unravel_index(distances.argmax(), distances.shape)
    return int(row), int(column), float(distances.max())
