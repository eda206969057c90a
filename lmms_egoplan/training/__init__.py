"""Tuning of transformers' vision-language models on answers and wrong answers to multimodal questions."""
