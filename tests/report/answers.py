"""Answers to questions of a task, as the tasks' ``process_results`` reads them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answers:
    """Questions of a task, rows of the prepared data without images, and what `process_results` reads about each."""

    docs: list[dict[str, Any]]
    responses: list[list[str]]
