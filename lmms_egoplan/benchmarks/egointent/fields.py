"""The three fields of an answer (sec. 3.2), and the names under which they come."""

FIELDS = ("local_intent", "global_intent", "next_step_plan")
TITLES = {"local_intent": "Local intent", "global_intent": "Global intent", "next_step_plan": "Next-step plan"}
# Other names; blanks and hyphens count as underscores, upper case as lower case.
ALIASES = {
    "procedural_intent": "global_intent",
    "next_plan": "next_step_plan",
    "next_step": "next_step_plan",
}
