"""The models and presets that a configuration can name.

In: nothing. Out: settings by name.
"""

from typing import Any

VARIANTS = {
    "seq2seq": {"adaptive": False, "attend_exemplar": False},
    "attexp": {"adaptive": False, "attend_exemplar": True},
    "adadec": {"adaptive": True, "attend_exemplar": False},
    "adadec+attexp": {"adaptive": True, "attend_exemplar": True},
}
"""The four models of the paper: two switches of one class (section 4.1)."""

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {},
    # The authors' released code, where it differs from the paper's text.
    "released": {
        "model": {
            "input_feeding": True,
            "linear_attention_layer": True,
            "copy": "separate",
            "exemplar_layer": True,
        },
        "search": {"block_ngram": 3},
    },
    # Ours: what pays on real text (docs/preset.md).
    "exadec": {
        "exemplars": {"neighbours": 4, "weighting": "tfidf", "calibrated": True, "form_share": 0.25},
        "model": {
            "weights": "residual",
            "rank": 64,
            "exemplar_hidden": 64,
            "exemplars_read": 4,
            "exemplars_drawn": 2,
            "exemplar_context": True,
            "exemplar_skipping": 0.1,
            "copy_case": True,
        },
    },
}
