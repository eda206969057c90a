"""Build instances in ActPlan-1K's format from BDDL activities and tours (sec. 3).

A model and people do the work.
"""
