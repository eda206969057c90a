"""ActPlan-1K: procedural plans for household activities, out of a task description and images of the scene.

Su, Ling, Shi, Cheng, Yim, Song, "ActPlan-1K: Benchmarking the Procedural Planning Ability of Visual Language Models in
Household Activities". 1,187 instances of 153 normal and counterfactual activities; a plan is compared with gold plans
by longest common subsequence, and judged by a finetuned BLEURT classifier,
https://github.com/HKUST-KnowComp/ActPlan-1K
"""
