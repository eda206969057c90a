"""Guide an agent step by step with a model that proposes the next action from goal, progress and
current view.
"""
