"""What a view shows, as text; and generations to show."""

import io

from rich.console import Console, RenderableType

from exadec.api import Explanation, Generation
from exadec.config import CorpusConfig
from exadec.corpus.readers import known_styles

WIRE = known_styles(CorpusConfig(format="wire"))


def show(renderable: RenderableType, colour: bool = False, width: int = 80) -> str:
    shown = io.StringIO()
    Console(width=width, file=shown, force_terminal=colour, color_system="standard" if colour else None).print(
        renderable
    )
    return shown.getvalue()


def generation(text: str, exemplar: str | None = None, similarity: float | None = None) -> Generation:
    exemplars = [] if exemplar is None else [exemplar]
    return Generation(
        text, 0.0, exemplar, exemplars, similarity, [], [], None, [], 0, 0, lambda: Explanation(None, None)
    )
