"""State that the garbage collector leaves aside: parts of a replica that refer to nothing which leads back to
them.

A collection takes as long as there are objects to look at, and nothing else runs meanwhile: with 2,000
replicas of some twenty objects each, 8 ms. Parts that can be in no cycle are freed when their replica is, and
need no collector. Reading a field costs what it costs elsewhere, writing one four times as much. So what each
request writes is in plain classes.
"""

from collections.abc import Callable
from typing import Any

import msgspec


class Untracked(msgspec.Struct, gc=False, eq=False):
    """A group of fields with defaults. None of them may lead back to the group."""


def own(make: Callable[[], object]) -> Any:
    """The default of a field that is an object of its own in each group."""
    return msgspec.field(default_factory=make)
