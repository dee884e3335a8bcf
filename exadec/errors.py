"""The errors a user can cause.

In: nothing. Out: `InputError` and its kinds, which the command line prints as one line and turns into exit status 2.
"""


class InputError(ValueError):
    """The user's input is wrong: a file, a record, an option. The message is one line that says what and where."""

    def __init__(self, message: str):
        # A name in a stranger's file may hold a line break.
        super().__init__(" ".join(message.splitlines()))


class RequestError(InputError):
    """One request of many cannot be met, because of what it asks for; the others can."""


class AbsentError(InputError):
    """What exemplars are retrieved from did not come along with the model."""


class InUseError(InputError):
    """A file or folder cannot be written or read now, because another process writes or reads it."""


def explain_lack_of_memory(error: BaseException, with_model: bool = True) -> str | None:
    """One line about an error for lack of memory, the computer's or a GPU's; None for any other error.

    `with_model`: whether the work had to do with a model, whose settings can be made smaller.
    """
    on_gpu = type(error).__name__ == "OutOfMemoryError"  # of torch, which takes seconds to import
    on_cpu = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
    if not (on_gpu or on_cpu):
        return None
    remedy = "try it with less data, or on a machine with more memory"
    if with_model:
        remedy = "try a smaller training.batch_size, search.batch_size, model.hidden or corpus.vocabulary_size"
    return f"there is not enough memory{' on the GPU' * on_gpu} for this; {remedy}."


class ConfigError(InputError):
    """A configuration that cannot be used; the message names the key."""
