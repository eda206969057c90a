"""The goal check: a plan carried out on its activity's BDDL problem, and the goal conditions that it reaches.

A diagnostic of this project, not the paper's: there, "the activity plans ... can not be directly evaluated in the
simulator" (sec. 4.1), and people say whether "the entire plan can achieve the final activity goal". How far the check
agrees with them is printed by ``lmms-egoplan evaluate actplan-goal-check``.
"""
