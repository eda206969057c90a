"""Answers without the model's reasoning, by the rule that lmms-eval applies to every answer."""

_TAGS = (("<think>", "</think>"), ("<analysis>", "</analysis>"))


def without_reasoning(text: str) -> str:
    """The text without blocks of reasoning, and without white space around it.

    Where a block's beginning stands in the prompt and its end alone in the answer, all before the last end is
    reasoning. A block that does not end stays.
    """
    for begin, end in _TAGS:
        while (start := text.find(begin)) >= 0 and (stop := text.find(end, start)) >= 0:
            text = text[:start] + text[stop + len(end) :]
        if begin not in text:
            text = text.rpartition(end)[2]
    return text.strip()
