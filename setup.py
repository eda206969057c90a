"""Add the packages that setuptools cannot find.

``tasks/`` is installed as ``lmms_egoplan.tasks``.
"""

from setuptools import find_namespace_packages, setup

tasks = [f"lmms_egoplan.{name}" for name in find_namespace_packages(include=["tasks", "tasks.*"])]
setup(packages=[*find_namespace_packages(include=["lmms_egoplan", "lmms_egoplan.*"]), *tasks])
