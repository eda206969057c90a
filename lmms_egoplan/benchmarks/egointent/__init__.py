"""EgoIntent: what a person does at a step of a first-person video, why, and what comes next, graded by a judge model.

Pan, Wong, Lyu, Li, Huo, Chen, Jiang, Zheng, Hu, "EgoIntent: A Pre-Outcome Micro-Step Benchmark for Understanding What,
Why, and Next", https://arxiv.org/abs/2603.12147; in its first version "An Egocentric Step-level Benchmark for
Understanding What, Why, and Next". 3,014 steps of Ego4D Goal-Step's videos,
https://github.com/facebookresearch/ego4d-goalstep
"""
