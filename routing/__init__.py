"""The data plane: what happens to a request.

Nothing in here imports Django, Celery, REST framework or Channels, and nothing in here imports
``controlplane`` or ``dashboard``. A proxy runs on this package alone.

Documented imports that have moved (``routing.balancer``, ``routing.replica``, …) are still understood, with a
FutureWarning that names the new place: that kind is shown also where a proxy imports somebody's strategy.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED = {
    "routing.affinity": "routing.balancing.affinity",
    "routing.balancer": "routing.balancing.balancer",
    "routing.replica": "routing.balancing.replica.state",
    "routing.strategies": "routing.balancing.strategies",
}


class _MovedModules(MetaPathFinder, Loader):
    """Finds a module by its former name: it is the very module of today, not a second copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if _today(fullname) else None

    def exec_module(self, module: ModuleType) -> None:
        before, today = module.__name__, _today(module.__name__)
        # Two frames up is the import statement: those of importlib are not counted.
        warnings.warn(f"{before} is {today} now: import that", FutureWarning, stacklevel=2)
        # The import system takes what stands here when this returns.
        sys.modules[before] = import_module(today)


def _today(name: str) -> str:
    """The name of today; empty: the module has not moved."""
    for before, today in _MOVED.items():
        if name == before or name.startswith(before + "."):
            return today + name.removeprefix(before)
    return ""


# First: the path finder would load a second copy of what lies in a package that has moved.
sys.meta_path.insert(0, _MovedModules())
