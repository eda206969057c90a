"""EgoPlan-Bench2: A Benchmark for Multimodal Large Language Model Planning in Real-World Scenarios.

Lu Qiu, Yi Chen, Yuying Ge, Yixiao Ge, Ying Shan, Xihui Liu.
https://arxiv.org/abs/2412.04447, https://github.com/qiulu66/EgoPlan-Bench2
"""
