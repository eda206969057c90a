"""A proposer that replaces a model."""

from lmms_egoplan.planner.planner import Proposal


class Says:
    """Proposes the same texts at every step, best first. requests: the questions and visuals of
    each step.
    """

    def __init__(self, *texts):
        self.texts, self.requests = texts, []

    def propose(self, question, visuals, actions, step_name):
        self.requests.append((question, visuals))
        return [Proposal(text, -1.0, 1, text if text in actions else None) for text in self.texts]
