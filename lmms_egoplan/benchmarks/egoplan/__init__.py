"""EgoPlan-Bench: Benchmarking Multimodal Large Language Models for Human-Level Planning.

Yi Chen, Yuying Ge, Yixiao Ge, Mingyu Ding, Bohao Li, Rui Wang, Ruifeng Xu, Ying Shan, Xihui Liu.
https://arxiv.org/abs/2312.06722, https://github.com/ChenYi99/EgoPlan
"""
