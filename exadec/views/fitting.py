"""Tables that stay readable on a narrow terminal.

In: a table. Out: the table itself or, where its columns do not fit, its rows one under another, each cell on a line.
"""

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

_UNLIMITED = 10_000
"""A width that no cell needs."""


class Fitting:
    """A table of which nothing is cut off. The first column names a row."""

    def __init__(self, table: Table):
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if _needed_width(self.table, console, options) <= options.max_width:
            yield self.table
            return
        if self.table.title:
            yield _as_text(self.table.title, console)
        headings = [Text(" ").join(_as_text(column.header, console).split("\n")) for column in self.table.columns]
        rows = zip(self.table.rows, zip(*(column.cells for column in self.table.columns), strict=True), strict=True)
        for row, (name, *cells) in rows:
            yield _as_text(name, console, "bold")
            lines = Table.grid(padding=(0, 2, 0, 0))
            for heading, cell in zip(headings[1:], cells, strict=True):
                text = Text(" ").join(_as_text(cell, console).split("\n"))
                if text.plain.strip():
                    lines.add_row("", heading, text, style=row.style)
            yield lines
        if self.table.caption:
            yield _as_text(self.table.caption, console)


def _needed_width(table: Table, console: Console, options: ConsoleOptions) -> int:
    """The width at which no cell is cut: that of the longest line, or of the longest word where lines may wrap."""
    _, right, _, left = table.padding

    def needed_by(column: Column) -> int:
        wide = options.update(max_width=_UNLIMITED)
        sizes = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
        widths = (size.maximum if column.no_wrap else size.minimum for size in sizes)
        # A long name may be folded anywhere.
        width = column.min_width or 1 if column.overflow == "fold" else max(widths)
        return column.width or max(width, column.min_width or 0)

    gaps = len(table.columns) - 1
    return sum(map(needed_by, table.columns)) + gaps * (left + right + 1)


def _as_text(cell: RenderableType, console: Console, style: str = "") -> Text:
    """A cell as text; a string may hold markup, as in a table."""
    text = cell.copy() if isinstance(cell, Text) else console.render_str(str(cell))
    text.stylize(style)
    return text
