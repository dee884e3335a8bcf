"""The nearest target, for analysis only: it uses the answer.

In: a `Pool` of targets. Out: for each instance the training instance whose target is most like its own.
"""

from exadec.exemplars.policies.nearest import Nearest


class Oracle(Nearest):
    """The nearest instance, compared by target."""

    compares = "target"
    not_for_new_text = "it compares targets, and new text has none"
