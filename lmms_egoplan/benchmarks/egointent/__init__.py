"""EgoIntent: infer what a person does in a step of a first-person video, why, and what is next.

A judge model grades the answers. The data are 3,014 steps of Ego4D Goal-Step's videos,
https://github.com/facebookresearch/ego4d-goalstep.

Pan, Wong, Lyu, Li, Huo, Chen, Jiang, Zheng, Hu, "EgoIntent: A Pre-Outcome Micro-Step Benchmark for
Understanding What, Why, and Next", https://arxiv.org/abs/2603.12147. Title of the first version:
"An Egocentric Step-level Benchmark for Understanding What, Why, and Next".

Modules, in the paper's order:

- `annotation_files`, `records`, `prepare`: the steps (sec. 3), and the data that tasks load
- `prompts`, `frames`, `conditions`: what a model is asked and shown (secs. 3.2 and 4.1)
- `reply`: how an answer is read
- `judge_protocol`, `judge`: how an answer is rated (sec. 4.1)
- `metrics`: what is measured (Table 3)
- `diagnostics`: the release's four scores without references
"""
