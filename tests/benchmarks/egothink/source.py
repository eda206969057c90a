"""Write small EgoThink data in the layouts of the official repository and of the hub."""

import json
from io import BytesIO

from datasets import Dataset, Features, Value
from datasets import Image as ImageFeature
from PIL import Image

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS


def shade(dimension, number):
    """Return the shade of a question's image; both arguments count from 0."""
    return 20 * dimension + 5 * number


def image_bytes(shade, image_format="JPEG"):
    """Return an image file of 24 x 16 pixels. Equal arguments give equal bytes."""
    buffer = BytesIO()
    Image.new("RGB", (24, 16), (shade % 256, 90, 40)).save(buffer, image_format)
    return buffer.getvalue()


def raw_records(dimension, count=2):
    """Return records in the format of `annotations.json`."""
    return [
        {
            "source_dataset": "ego4d",
            "image_path": [f"{number}.jpg"],
            "question": f"What is thing {number} of {dimension.name}? ",
            "answer": f"The {dimension.name} {number}.",
        }
        for number in range(1, count + 1)
    ]


def write_source(root, count=2):
    """Write all twelve folders with `count` questions each; return `root`."""
    for index, dimension in enumerate(DIMENSIONS):
        folder = root / dimension.folder
        (folder / "images").mkdir(parents=True)
        records = raw_records(dimension, count)
        (folder / "annotations.json").write_text(json.dumps(records))
        for number, record in enumerate(records):
            (folder / "images" / record["image_path"][0]).write_bytes(
                image_bytes(shade(index, number))
            )
    return root


def write_hub_copy(
    source, root, splits=("test",), configs=tuple(dimension.hub_config for dimension in DIMENSIONS)
):
    """Write the data of a source to ``root/EgoThink/EgoThink``, in the layout of a dataset on the
    hub.
    """
    features = Features(
        {
            "id": Value("string"),
            "question": Value("string"),
            "answer": Value("string"),
            "image": ImageFeature(),
        }
    )
    folder = root / "EgoThink" / "EgoThink"
    folder.mkdir(parents=True)
    lines = ["---", "configs:"]
    for dimension in DIMENSIONS:
        if dimension.hub_config not in configs:
            continue
        records = json.loads((source / dimension.folder / "annotations.json").read_text())
        rows = [
            {
                "id": str(number),
                "question": record["question"],
                "answer": record["answer"],
                "image": (
                    source / dimension.folder / "images" / record["image_path"][0]
                ).read_bytes(),
            }
            for number, record in enumerate(records)
        ]
        lines += [f"- config_name: {dimension.hub_config}", "  data_files:"]
        for split in splits:
            path = f"{dimension.hub_config}/{split}-00000-of-00001.parquet"
            (folder / path).parent.mkdir(exist_ok=True)
            Dataset.from_list(rows, features=features).to_parquet(folder / path)
            lines += [f"  - split: {split}", f"    path: {path}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))


def write_marks(root, numbers=(1, 2)):
    """Write a box for the questions with these numbers of all dimensions; return `root`."""
    for dimension in DIMENSIONS:
        (root / dimension.name).mkdir(parents=True)
        for number in numbers:
            (root / dimension.name / f"{number}.json").write_text("[[4, 2, 14, 9]]")
    return root
