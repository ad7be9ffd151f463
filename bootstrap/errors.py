"""Why the environment could not be made, as one sentence for a person."""


class BootstrapError(Exception):
    """``str()`` is one clear sentence: what is wrong and what to do."""
