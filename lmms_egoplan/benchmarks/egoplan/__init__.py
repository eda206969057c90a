"""EgoPlan-Bench and EgoPlan-Bench2: one protocol, two data sets.

EgoPlan-Bench: Benchmarking Multimodal Large Language Models for Human-Level Planning.
Yi Chen, Yuying Ge, Yixiao Ge, Mingyu Ding, Bohao Li, Rui Wang, Ruifeng Xu, Ying Shan, Xihui Liu.
https://arxiv.org/abs/2312.06722, https://github.com/ChenYi99/EgoPlan

EgoPlan-Bench2: A Benchmark for Multimodal Large Language Model Planning in Real-World Scenarios.
Lu Qiu, Yi Chen, Yuying Ge, Yixiao Ge, Ying Shan, Xihui Liu.
https://arxiv.org/abs/2412.04447, https://github.com/qiulu66/EgoPlan-Bench2

Each question has a goal, the progress so far as first-person video, and four candidate actions. The
tasks rank the candidates by likelihood, or read the letter that a model writes.

The code calls the two data sets EGOPLAN and EGOPLAN_BENCH2. Section and table numbers refer to the
EgoPlan-Bench paper unless another paper is named.

Modules, in the papers' order:

- `records`, `verification`: the published questions, and what annotators said (secs. 3.1 to 3.3)
- `statistics`, `wording`: the counts of Table 2, and which phrases are equal
- `footage`, `prepare`: the videos and frames of the questions; the data that tasks load
- `prompts`, `frames`, `frame_settings`, `visuals`, `conditions`: what a model is asked and shown
  (sec. 3.5)
- `rank`: how choices are ranked by likelihood (sec. 3.5)
- `reply`, `letter`: how a written answer is read and scored
- `metrics`: what is measured (Tables 1 and 3); `submission`: files for the leaderboard
- `presets`, `published`, `published_readers`, `published_scores`: how published pipelines ask,
  show, read and score
"""
