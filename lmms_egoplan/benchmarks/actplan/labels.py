"""What people say of plans: verdicts (arXiv 2410.03907, sec. 4.1) and six types of errors (sec. 5.6)."""

VERDICTS = ("correct", "commonsense")
# The file of labelled plans in an export.
PLANS = "plans.jsonl"

# Sec. 5.6, in its order.
ERRORS = {
    "missing_actions": "Missing actions",
    "object": "Mistake of object property or function",
    "event": "Mistake of event cause or effect",
    "form": "Incorrect form",
    "extra_tools": "Hallucination of extra tools",
    "image": "Incorrect image understanding",
}
