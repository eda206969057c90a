"""Run a case that is a function: ``python -m output_cases.run NAME``."""

import sys
from importlib import import_module

from output_cases.tokens import fix_tokens

# The function of each case, as module and name.
_FUNCTIONS = {
    "help": ("help", "show_help"),
    "errors": ("errors", "make_errors"),
    "demo": ("demo", "run_demo"),
    "lm-eval": ("demo", "run_lm_eval"),
    "judges": ("demo", "judge_answers"),
    "sensitivity": ("demo", "vary_protocol"),
    "training": ("training", "train"),
    "annotation": ("annotation", "annotate"),
}

if __name__ == "__main__":
    fix_tokens()
    module, function = _FUNCTIONS[sys.argv[1]]
    getattr(import_module(f"output_cases.{module}"), function)()
