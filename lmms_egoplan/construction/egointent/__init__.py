"""Build steps in EgoIntent's format from Ego4D's narrations and Goal-Step's steps (sec. 3.3)."""
