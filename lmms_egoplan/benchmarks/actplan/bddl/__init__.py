"""Activities in BDDL, the Behavior Domain Definition Language (sec. 3.2): read, checked, written.

BDDL: Srivastava et al. (2021), https://github.com/StanfordVL/bddl. Nothing here knows plans or models.
"""
