"""The command's entry point; ``python -m lmms_egoplan`` is for launchers that start modules."""

import sys

from lmms_egoplan.processes import end_on_signals, exit_code


def main() -> None:
    """Run the command. Signals count from here, while its modules load, too."""
    end_on_signals()
    try:
        from lmms_egoplan.cli import app

        app()
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))


if __name__ == "__main__":
    main()
