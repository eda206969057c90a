"""This process among those that a launcher started, as torchrun and accelerate tell it."""

import os


def num_processes() -> int:
    """How many processes evaluate together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the process that shows progress."""
    return os.environ.get("RANK", "0") == "0"
