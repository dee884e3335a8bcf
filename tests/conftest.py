"""What holds for every test."""

import signal

import pytest
import torch


def pytest_configure() -> None:
    """Let Ctrl-C through: some tests send it, and what a shell runs in the background ignores it, children and all."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
