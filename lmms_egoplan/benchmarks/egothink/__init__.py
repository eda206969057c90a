"""EgoThink: 700 open questions on first-person images in twelve dimensions.

A judge model grades the answers.

Cheng et al., "EgoThink: Evaluating First-Person Perspective Thinking Capability of Vision-Language
Models", https://github.com/AdaCheng/EgoThink
"""
