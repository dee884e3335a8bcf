"""A wire on which a model trains in seconds."""

SMALL = {
    "corpus.wire_train": 300,
    "corpus.wire_outlets": 30,
    "corpus.wire_heldout": 40,
    "corpus.vocabulary_size": 700,
    "model.hidden": 16,
    "model.embedding": 16,
    "training.evaluation_size": 10,
}
"""Changes to `configs/wire.yaml`, by key."""
