"""Train ActPlan-1K's classifier of correct plans (arXiv 2410.03907, sec. 4.2.2)."""
