"""EgoPlan-IT: models tuned on questions of Epic-Kitchens, with a contrastive loss (sec. 5, C.2)."""
