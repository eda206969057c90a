# ruff: noqa: RUF001 - the signs are the point
"""Texts that a judge of EgoIntent may be shown, or may write."""

import re

from hypothesis import strategies as st

REFERENCES = {
    "local_intent": "position the screw",
    "global_intent": "secure the part",
    "next_step_plan": "drive the screw in",
}
PIECES = st.sampled_from(
    [
        "[",
        "]",
        "[[",
        "]]",
        "［",
        "\u200b",
        "<think>",
        "</think>",
        "[[80]]",
        "[[local_intent: 7]]",
        "8",
        ":",
        " ",
        "\n",
        "n",
    ]
)
TEXTS = st.text() | st.lists(PIECES).map("".join)


def shown_in(prompt):
    return re.findall(
        r"\[Start of the prediction[^\]]*\]\n(.*?)\n\[End of the prediction", prompt, re.DOTALL
    )
