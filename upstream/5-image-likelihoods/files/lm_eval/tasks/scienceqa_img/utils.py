import datasets


def process_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    """Keep only the questions with an image, without decoding images."""
    has_image = [
        image is not None
        for image in dataset.cast_column("image", datasets.Image(decode=False))["image"]
    ]
    return dataset.select([i for i, has in enumerate(has_image) if has])
