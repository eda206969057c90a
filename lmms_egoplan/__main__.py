"""The command's entry point. Launchers that start modules can use ``python -m lmms_egoplan``."""

import sys

from lmms_egoplan.processes import end_on_signals, exit_code


def main() -> None:
    """Run the command. Signals are handled from here on, even while modules load."""
    end_on_signals()
    try:
        from lmms_egoplan.cli import app

        app()
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))


if __name__ == "__main__":
    main()
