"""Answers to questions of a task, as the tasks' ``process_results`` reads them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answers:
    """Questions of a task with their answers.

    docs: rows of the prepared data, without images.
    responses: for each question, the responses that ``process_results`` reads.
    """

    docs: list[dict[str, Any]]
    responses: list[list[str]]
