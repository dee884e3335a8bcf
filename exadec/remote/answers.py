"""What an exadec server answers, as far as a client reads it.

In: nothing. Out: shapes for `matches`. `exadec/server/schema.py` has the same in full; other keys are ignored.
"""

from typing import Any

MODEL = {
    "exadec": str,
    "beam_size": int,
    "batch_size": int,
    "max_source": int,
    "max_target": int,
    "reads_exemplars": bool,
    "told_groups": bool,
}
PROBLEM = {"error": str}
FOUND = {"text": str, "similarity": float}
RETRIEVED = {"exemplars": [FOUND]}
EXEMPLAR = {"text": str}
COEFFICIENTS = {"coefficients": [(None, [[float]])]}
STYLE = {"name": str, "exemplars": [{"exemplar": str, "weight": float}]}
STYLES = {"styles": [STYLE]}

_NAMED = {"id": (str, None), "text": str}
WRITTEN: dict[str, Any] = {
    "text": str,
    "score": float,
    "exemplar": (None, _NAMED),
    "exemplars": [str],
    "similarity": (None, float),
    "alternatives": [{"text": str, "score": float}],
    "truncated": int,
    "exemplar_truncated": int,
    "facts": (None, [{"words": str, "begin": int, "end": int, "kind": str, "licensed": bool}]),
    "coefficients": (None, [float], [[float]]),
    "pieces": [str],
    "memory": [str],
}
"""With the coefficients and the pieces, which a client always asks for."""
EXPLAINED = WRITTEN | {"attention": (None, [[float]]), "copy_gate": (None, [float])}
VARIED = {"texts": [WRITTEN | {"exemplar": _NAMED}]}

EVENTS: dict[str, Any] = {"text": {"text": str}, "done": {"text": str}, "error": {"status": int, **PROBLEM}}
"""The data of events by their names; others are not looked at."""
