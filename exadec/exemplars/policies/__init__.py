"""Policies that choose an instance's exemplar: one file each, and the list of them.

To add a policy, write a subclass of `Policy` in a new file, and add a line to `POLICIES`.
"""

from exadec.config import ExemplarConfig
from exadec.exemplars.policies.form import Form
from exadec.exemplars.policies.given import Given
from exadec.exemplars.policies.nearest import Nearest
from exadec.exemplars.policies.none import NoExemplar
from exadec.exemplars.policies.oracle import Oracle
from exadec.exemplars.policies.policy import Policy
from exadec.exemplars.policies.random import Random
from exadec.exemplars.policies.sample import Sample
from exadec.exemplars.policies.shuffled import Shuffled
from exadec.strict_yaml import require_choice

POLICIES: dict[str, type[Policy]] = {
    "nearest": Nearest,
    "sample": Sample,
    "random": Random,
    "shuffled": Shuffled,
    "oracle": Oracle,
    "form": Form,
    "given": Given,
    "none": NoExemplar,
}
"""Every value of `exemplars.policy`."""


def find_policy(config: ExemplarConfig) -> type[Policy]:
    """The policy that a configuration names."""
    require_choice(config.policy, POLICIES, "exemplars.policy")
    return POLICIES[config.policy]
