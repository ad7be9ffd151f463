"""Why ``up`` cannot start or go on, as one sentence for a person."""


class UpError(Exception):
    """``str()`` is one clear sentence: what is wrong and what to do."""
