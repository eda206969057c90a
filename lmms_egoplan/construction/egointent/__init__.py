"""Steps of EgoIntent's form, made from Ego4D's narrations and Goal-Step's steps (sec. 3.3)."""
