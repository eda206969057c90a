"""List the modules that a piece of code loads."""

import json
import os
import subprocess
import sys

from patience import FOREVER_S


def loaded_by(code, **environment):
    code = f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))
