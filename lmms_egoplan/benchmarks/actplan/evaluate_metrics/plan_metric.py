"""What the metrics share: texts that evaluate can store."""

from typing import Any

import evaluate

from lmms_egoplan.text import clean_text


# Modules of metrics import this module, not the class: evaluate takes the first class that it finds in them.
class PlanMetric(evaluate.Metric):
    """A metric of lists of plans; halves of surrogate pairs are read as ``?``."""

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one plan; see `evaluate.Metric`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add plans; see `evaluate.Metric`.

        Raises:
            ValueError: there is no plan.
        """
        for name, values in (("predictions", predictions), ("references", references)):
            if values is not None and not len(values):
                raise ValueError(f"{name} is empty; give at least one plan")
        super().add_batch(predictions=_cleaned(predictions), references=_cleaned(references), **kwargs)


def _cleaned(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_cleaned(member) for member in value]
    return clean_text(value) if isinstance(value, str) else value
