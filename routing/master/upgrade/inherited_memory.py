"""Inherited memory: the prefix memory of the master that is replaced, so that prompts still find their KV.

A master names its descriptor in ``SWITCHYARD_INHERITED_PREFIXES``, apart from the sockets: one of a version
that knows nothing of it starts without. The variable is only for this process, and is removed from the
environment.
"""

import os
from collections.abc import MutableMapping
from contextlib import suppress

from routing.shared.prefix_memory import PrefixMemory

VARIABLE = "SWITCHYARD_INHERITED_PREFIXES"


def from_environment(environment: MutableMapping[str, str]) -> PrefixMemory:
    """What the environment names; a new one if it names none, or one of another version."""
    text = environment.pop(VARIABLE, "")
    if text.isdecimal():
        fd = int(text)
        with suppress(OSError, ValueError):
            os.set_inheritable(fd, False)
            return PrefixMemory(fd)
    return PrefixMemory.create()
