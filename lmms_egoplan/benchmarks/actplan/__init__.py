"""ActPlan-1K: write plans for household activities from a description and images of the scene.

Su, Ling, Shi, Cheng, Yim, Song, "ActPlan-1K: Benchmarking the Procedural Planning Ability of Visual
Language Models in Household Activities". The benchmark has 1,187 instances of 153 normal and
counterfactual activities. A plan is compared with gold plans by longest common subsequence, and a
finetuned BLEURT classifier judges it. https://github.com/HKUST-KnowComp/ActPlan-1K

Modules, in the paper's order:

- `instances`, `prepare`: the instances (secs. 3.1 and 3.4), and the data that tasks load
- `prompts`, `conditions`: what a model is asked and shown (sec. 3.1)
- `reply`: how the plan in a reply is read (App. F); `plans`: records of plans, and files of them
- `lcs`, `classifier`, `scoring`: how a plan is scored (sec. 4.2)
- `metrics`: what is measured (Table 4)
- `classifier_agreement`: how far the classifier agrees with people (sec. 5.4, Table 5)
- `evaluate_metrics`: LCS and classifier for the package evaluate
"""
