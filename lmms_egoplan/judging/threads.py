"""Run a coroutine for a caller that may itself be in an event loop."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_in_thread(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new thread and event loop, since the caller may be in one.

    Ctrl-C cancels the coroutine.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)

    def run() -> Result:
        with closing(loop):
            return loop.run_until_complete(task)

    with ThreadPoolExecutor(1, thread_name_prefix="judging") as pool:
        try:
            return pool.submit(run).result()
        except KeyboardInterrupt:
            with suppress(RuntimeError):  # the loop is closed, so the coroutine is done
                loop.call_soon_threadsafe(task.cancel)
            raise
