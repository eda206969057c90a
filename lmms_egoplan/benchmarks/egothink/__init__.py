"""EgoThink: 700 open questions on first-person images in twelve dimensions.

A judge model grades the answers.

Cheng et al., "EgoThink: Evaluating First-Person Perspective Thinking Capability of Vision-Language
Models", https://github.com/AdaCheng/EgoThink

Modules, in the paper's order:

- `dimensions`, `records`, `prepare`: the questions (secs. 3.1 and 3.2), the data that tasks load
- `prompts`, `conditions`, `marks`: what a model is asked and shown (Tables 5 and 6, sec. 5.1);
  `prompts` also reads its reply
- `judge`, `judge_protocol`, `answers`: how an answer is graded, and a verdict read (sec. 4.1,
  Table 7)
- `metrics`: what is measured (Table 3)
- `presets`: how published pipelines ask and judge
"""
