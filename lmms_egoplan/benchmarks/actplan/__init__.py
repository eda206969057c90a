"""ActPlan-1K: write plans for household activities from a description and images of the scene.

Su, Ling, Shi, Cheng, Yim, Song, "ActPlan-1K: Benchmarking the Procedural Planning Ability of Visual
Language Models in Household Activities". The benchmark has 1,187 instances of 153 normal and
counterfactual activities. A plan is compared with gold plans by longest common subsequence, and a
finetuned BLEURT classifier judges it. https://github.com/HKUST-KnowComp/ActPlan-1K
"""
