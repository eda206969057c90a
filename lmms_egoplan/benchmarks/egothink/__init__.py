"""EgoThink:
700 open questions on first-person images in twelve dimensions, answers graded by a judge model.

Cheng et al., "EgoThink: Evaluating First-Person Perspective Thinking Capability of Vision-Language
Models", https://github.com/AdaCheng/EgoThink
"""
