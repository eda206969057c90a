"""Tune models on EgoPlan-IT with a contrastive loss (sec. 5, C.2).

EgoPlan-IT asks about videos of Epic-Kitchens.
"""
