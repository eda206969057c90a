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

    >>> explained({"question": "What am I holding?"})["question"].endswith("locate things. What am I holding?")
    True
    """
    return {**doc, "question": f"{SENTENCE} {doc['question']}"}


def marked_records(records: Collection[Record], folder: Path) -> list[Record]:
    """Return the questions whose image has marks, with the marked image as PNG.

    Args:
        records: Questions.
        folder: Folder with a file for each image with marks, see `read_marks`: ``existence/1.json``
            (or png) for the question ``existence/1``.

    Raises:
        LmmsEgoplanError: A file is invalid or belongs to no question, or no question has marks.
    """
    files = {path for path in folder.glob("*/*") if path.suffix in (".json", ".png")}
    by_id = {f"{path.parent.name}/{path.stem}": path for path in sorted(files)}
    drawn, problems = list[Record](), list[str]()
    for record in track([record for record in records if record.id in by_id], "Drawing marks"):
        image, file = ImageOps.exif_transpose(Image.open(BytesIO(record.image))), BytesIO()
        try:
            draw_marks(image, read_marks(by_id[record.id], image.size)).save(file, "PNG")
        except LmmsEgoplanError as error:
            problems.append(str(error))
        drawn.append(replace(record, image=file.getvalue()))
    unused = sorted(files - {by_id[record.id] for record in drawn}) or [folder] * (not drawn)
    problems += [
        f"{path}: no marks of a question; expected one file per image, existence/1.json"
        for path in unused
    ]
    refuse(problems, "", f"{folder}: {len(problems)} problems:")
    return drawn


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
    if path.suffix == ".json":
        content = read_json(path, "marks")
        entries = read_as(
            list[Any],
            str(path),
            content.get("annotations") if isinstance(content, dict) else content,
        )
        masks = {
            number: _mask(f"{path}, entry {number}", entry, size)
            for number, entry in enumerate(entries, 1)
        }
    else:
        check_image(path.read_bytes(), str(path))
        labels = np.asarray(Image.open(path))
        if labels.shape != size[::-1]:
            raise LmmsEgoplanError(
                f"{path}: expected one channel of shape {size[::-1]} (image), found {labels.shape}"
            )
        masks = {int(number): labels == number for number in np.unique(labels) if number > 0}
    empty = [
        f", entry {number}: empty mask; remove it"
        for number, mask in masks.items()
        if not mask.any()
    ]
    if problems := empty or [": no marks; remove the file to omit the question"] * (not masks):
        raise LmmsEgoplanError(f"{path}{problems[0]}")
    return masks


def _mask(where: str, entry: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the pixels of an entry; see `read_marks`."""
    fields = entry if isinstance(entry, dict) else {"bbox": entry}
    name = "segmentation" if fields.get("segmentation") else "bbox"
    shape: Any = fields.get(name)
    draw = ImageDraw.Draw(mask := Image.new("1", size))
    try:
        if isinstance(shape, dict):
            runs = (
                decode_counts(shape["counts"])
                if isinstance(shape["counts"], str)
                else shape["counts"]
            )
            if shape["size"] != [*size[::-1]] or sum(runs) != size[0] * size[1]:
                raise ValueError(f"size {shape['size']}, {sum(runs)} pixels in counts")
            return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(size).T
        if name == "bbox":
            x, y, wide, high = shape
            shape = [[x, y, x + wide, y + high]]
        for points in shape:
            if not np.min(points) >= 0 or max(points[::2]) > size[0] or max(points[1::2]) > size[1]:
                raise ValueError("outside")
            (draw.rectangle if name == "bbox" else draw.polygon)(points, fill=1)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        misfit = (
            f"{quoted(fields.get(name))}, which does not fit the image of {size[0]} x "
            f"{size[1]} pixels ({error})"
        )
        raise LmmsEgoplanError(
            f"{where}, {name}: expected a box, RLE or polygons, found {misfit}"
        ) from error
    return np.array(mask)


def decode_counts(text: str) -> list[int]:
    """Return the run lengths of COCO's compressed RLE: 5 bits per character; from the fourth run
    on, differences.

    >>> decode_counts("52203"), decode_counts("1O")
    ([5, 2, 2, 2, 5], [1, -1])
    """
    runs: list[int] = []
    value = shift = 0
    for code in (ord(character) - 48 for character in text):
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:  # the last character of a number, whose highest bit is its sign
            runs.append(value - ((code >> 4) << shift) + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
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
    font = ImageFont.load_default(max(9, min(image.size) // 28))
    owners = np.zeros(image.size[::-1], int)  # number of the smallest mask at each pixel
    for number in (order := sorted(masks, key=lambda number: -masks[number].sum())):
        owners[masks[number]] = number
    draw = ImageDraw.Draw(marked := image.convert("RGB"))
    for number in order:
        color = f"hsl({138 * number % 360}, 100%, 50%)"
        (part,) = ndimage.find_objects(masks[number].astype(np.uint8))
        whole, free = masks[number][part], owners[part] == number
        edge = free & ~ndimage.binary_erosion(whole, iterations=1 + min(image.size) // 200)
        draw.bitmap((part[1].start, part[0].start), Image.fromarray(edge), color)
        depths = ndimage.distance_transform_edt(np.pad(free if free.any() else whole, 1))[
            1:-1, 1:-1
        ]
        row, column = np.unravel_index(depths.argmax(), depths.shape)
        half = np.array(font.getbbox(str(number))[2:]) / 2 + 2
        lift = 0 if depths.max() > half[1] else depths.max() + half[1]
        spot = np.clip(
            [column + part[1].start, row + part[0].start - lift],
            half,
            np.array(image.size) - 1 - half,
        )
        draw.rectangle((*(spot - half), *(spot + half)), "black", color)
        draw.text((spot[0], spot[1]), str(number), "white", font, "mm")
    return marked
