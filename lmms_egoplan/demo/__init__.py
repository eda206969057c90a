"""An evaluation on a fresh machine: rendered sets, a tiny random model and two scripted ones, up to the report.

The sets, the scripted replies and the verdicts of the scripted judge are data, in ``data``; ``perf/demo/render.py`` of
the project makes them.
"""
