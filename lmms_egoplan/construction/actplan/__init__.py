"""Instances of ActPlan-1K's form, made of BDDL activities and tours of rooms by a model and by people (sec. 3)."""
