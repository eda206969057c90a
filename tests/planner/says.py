"""Something that proposes in place of a model."""

from lmms_egoplan.planner.planner import Proposal


class Says:
    """Proposes the same texts at every step, the best first. shown: questions and visuals of the steps."""

    def __init__(self, *texts):
        self.texts, self.shown = texts, []

    def propose(self, question, visuals, actions, place):
        self.shown.append((question, visuals))
        return [Proposal(text, -1.0, 1, text if text in actions else None) for text in self.texts]
