"""Tune transformers' vision-language models on right and wrong answers to multimodal questions."""
