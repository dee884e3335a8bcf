"""The errors a user can cause.

In: nothing. Out: `InputError`, which the command line prints as one line and turns into exit status 2.
"""


class InputError(ValueError):
    """The user's input is wrong: a file, a record, an option. The message is one line that says what and where."""


class ConfigError(InputError):
    """A configuration that cannot be used; the message names the key."""
