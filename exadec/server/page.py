"""The page for people.

In: the files in `static`. Out: the page at /, and its files at /static, which ask nobody else for anything.
"""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

STATIC = Path(__file__).parent / "static"
_HEADERS = {
    # Texts of strangers are shown, so nothing that is not ours may run, and nobody else is told what was written.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class _Files(StaticFiles):
    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers.update(_HEADERS)
        return response


def add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers=_HEADERS)

    app.mount("/static", _Files(directory=STATIC))
