"""Build instances in ActPlan-1K's format from BDDL activities and tours of rooms, with a model and
people (sec. 3).
"""
