"""The demo: a full evaluation on rendered sets, with a tiny random model and two scripted ones.

``data`` contains the sets, the scripted replies and the scripted judge's verdicts.
``perf/demo/render.py`` in the repository generates them.
"""

from pathlib import Path

DATA = Path(__file__).with_name("data")
