"""A real browser: the one of the system, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE, DESK = 390, 1280


@contextmanager
def open_browser() -> Iterator[Any]:
    """Skips the test when there is no browser, or no Playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, which is in the extra `dev`")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is on the path")
    with api.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found)
        yield opened
        opened.close()
