"""The six types of errors in plans (sec. 5.6)."""

# Sec. 5.6, in its order.
ERRORS = {
    "missing_actions": "Missing actions",
    "object": "Mistake of object property or function",
    "event": "Mistake of event cause or effect",
    "form": "Incorrect form",
    "extra_tools": "Hallucination of extra tools",
    "image": "Incorrect image understanding",
}
