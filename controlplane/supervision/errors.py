"""Error of ``up``: why it cannot start or continue, as one sentence."""


class UpError(Exception):
    """``str()`` is one clear sentence: what is wrong and what to do."""
