"""How many processor cores there are for this process.

In: nothing. Out: a number, from which the parts above choose theirs of processes and threads.
"""

import os


def available_cores() -> int:
    """The cores this process may use: fewer than the machine has where a scheduler or `taskset` keeps it to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
