"""Sharing one GPU among several processes.

In: a machine with NVIDIA's Multi-Process Service (MPS). Out: processes started meanwhile run on the GPU concurrently.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_CONTROL = "nvidia-cuda-mps-control"
_FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")

# Runs the service until its stdin closes: when we close it, or when this process dies in any way.
_KEEPER = f"""
trap 'rm -r "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
{_CONTROL} -d > /dev/null 2>&1 || exit 1
echo started
cat > /dev/null
echo quit | {_CONTROL}
"""

# Opens the GPU as torch would, without the seconds it takes to import torch.
_PROBE = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
sys.exit(driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""


@contextmanager
def shared_card() -> Iterator[bool]:
    """Run the service for processes started inside the block; yield whether it works.

    Without it the driver gives the GPU to one process at a time. Our service has its own temporary folder. If a service
    is already set up, it is used as it is, and none is started.
    """
    if shutil.which(_CONTROL) is None or any(name in os.environ for name in _FOLDERS):
        yield False
        return
    settings = dict.fromkeys(_FOLDERS, tempfile.mkdtemp(prefix="exadec-mps-"))
    # Otherwise it would apply twice: the service renumbers the GPUs it sees, and its clients choose among those.
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | settings
    keeper = subprocess.Popen(  # noqa: S603 - fixed words
        ["sh", "-c", _KEEPER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,  # noqa: S607 - any shell
        stderr=subprocess.DEVNULL, start_new_session=True,  # keeps Ctrl-C from it
    )  # fmt: skip
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    # In some containers the service starts, but refuses every client.
    works = keeper.stdout.readline() == b"started\n" and _can_use_card(settings)
    try:
        if works:
            os.environ.update(settings)
        yield works
    finally:
        for name in settings:
            os.environ.pop(name, None)
        keeper.stdin.close()
        keeper.stdout.close()
        keeper.wait()


def _can_use_card(settings: dict[str, str]) -> bool:
    command = [sys.executable, "-c", _PROBE]
    probe = subprocess.run(command, env=os.environ | settings, capture_output=True, check=False)  # noqa: S603 - fixed words
    return probe.returncode == 0
