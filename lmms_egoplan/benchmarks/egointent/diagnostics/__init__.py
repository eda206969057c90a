"""The task egointent_diagnostics: four scores without references, by a judge that is shown the frames."""
