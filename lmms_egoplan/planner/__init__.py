"""A model that guides an agent step by step: at each step the next action, from goal, progress and current view."""
