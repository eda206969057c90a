"""Guide an agent step by step with a model.

The model proposes the next action from goal, progress and current view.
"""
