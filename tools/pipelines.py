"""Check out the published pipelines that the tests compare the presets with:

`python tools/pipelines.py DIR`.

Each pipeline is a folder in DIR, at the commit that the presets follow. Run the nightly test with
`PIPELINES=DIR`. The pipeline `lmms-eval-0.7.3` is the installed lmms-eval.
"""

import argparse
import subprocess
import sys
from pathlib import Path

REPOSITORIES = {
    "official-egoplan": (
        "https://github.com/ChenYi99/EgoPlan",
        "1510afc12bc832b50d6285d83503ecbdca093bf4",
    ),
    "official-egoplan-bench2": (
        "https://github.com/qiulu66/EgoPlan-Bench2",
        "2523b381378028844d30f1fbd802d4c8a7cc3c42",
    ),
    "official-egothink": (
        "https://github.com/AdaCheng/EgoThink",
        "fbafe8fe4e963c8b30be62bafd5ce16f61bb0141",
    ),
    "flageval": (
        "https://github.com/flageval-baai/FlagEvalMM",
        "fef27ec696c532d12f0db389bcbbf79eab0e4c41",
    ),
    "mimo": (
        "https://github.com/XiaomiMiMo/MiMo-Embodied",
        "0bee4b63b2180eaef26429339ac33cab6b9fde4f",
    ),
    "physbrain-evalkit": (
        "https://github.com/DeepCybo-PhysAI/PhysBrainEvalKit",
        "c95d9eedc458e959911e28a23b292a80dcb45b52",
    ),
    "seed-bench-r1": (
        "https://github.com/TencentARC/SEED-Bench-R1",
        "12e8fccbd9de626a4c1c617c4a48cf2927b77c6e",
    ),
}
"""Address and commit of each pipeline, by the name of its folder."""


def check_out(folder: Path, address: str, commit: str) -> None:
    """Check out a commit into a folder, without history. A folder at this commit is left as it is.

    Raises:
        subprocess.CalledProcessError: git failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    git = ("git", "-C", str(folder))
    if (folder / ".git").exists():
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout
        if head.strip() == commit:
            return
    else:
        subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "fetch", "--quiet", "--depth", "1", address, commit], check=True)
    subprocess.run([*git, "checkout", "--quiet", "--detach", commit], check=True)


def main() -> int:
    """Check out all pipelines; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder for the checkouts")
    folder = parser.parse_args().folder
    failed = []
    for name, (address, commit) in REPOSITORIES.items():
        try:
            check_out(folder / name, address, commit)
        except subprocess.CalledProcessError:
            failed.append(name)
        print(f"{name}: {address}, commit {commit[:7]}{': failed' if name in failed else ''}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
