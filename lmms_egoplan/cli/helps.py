"""What helps of shared commands tell of the benchmarks."""

from lmms_egoplan.benchmarks.registry import BENCHMARKS


def helps(key: str) -> list[str]:
    """The benchmarks' texts under a key of `Commands.HELPS`, one of each benchmark that has one."""
    texts = (benchmark.load_commands().HELPS for benchmark in BENCHMARKS)
    return [own[key] for own in texts if key in own]


def joined(parts: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
