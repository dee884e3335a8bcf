"""The errors a user can cause.

In: nothing. Out: `InputError`, which the command line prints as one line and turns into exit status 2.
"""


class InputError(ValueError):
    """The user's input is wrong: a file, a record, an option. The message is one line that says what and where."""

    def __init__(self, message: str):
        # A name in a stranger's file may hold a line break.
        super().__init__(" ".join(message.splitlines()))


class ConfigError(InputError):
    """A configuration that cannot be used; the message names the key."""
