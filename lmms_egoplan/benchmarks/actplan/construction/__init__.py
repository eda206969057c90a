"""Instances of ActPlan-1K's form made from BDDL activities and views of rooms, by a language model and people (sec. 3)."""
