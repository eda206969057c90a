"""Tune models on EgoPlan-IT: questions about Epic-Kitchens, with a contrastive loss (sec. 5, C.2)."""
