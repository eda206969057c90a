"""What a model is shown of a question (sec. 3.3, C.1): see `Visuals`."""

from lmms_egoplan.benchmarks.egoplan.visuals import Visuals

_VISUALS = Visuals("egoplan")

visual_input = _VISUALS.visual_input
uniform_images = _VISUALS.uniform_images
clip_images = _VISUALS.clip_images
progress_video = _VISUALS.progress_video
read_frames = _VISUALS.read_frames
