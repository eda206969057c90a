"""What a model is shown of a question: frames from the task's start to the observation, see `Visuals`."""

from lmms_egoplan.benchmarks.egoplan.visuals import Visuals

_VISUALS = Visuals("egoplan_bench2")

visual_input = _VISUALS.visual_input
uniform_images = _VISUALS.uniform_images
