"""Documented imports of former versions: still understood, each with a warning that names the new place."""

import importlib
import sys
import warnings

import pytest

DOCUMENTED = {
    "routing.affinity": ("routing.balancing.affinity", "Affinity"),
    "routing.balancer": ("routing.balancing.balancer", "Balancer"),
    "routing.replica": ("routing.balancing.replica.state", "Replica"),
    "routing.strategies": ("routing.balancing.strategies", "build"),
    "routing.strategies.base": ("routing.balancing.strategies.base", "Strategy"),
    "routing.strategies.sampling": ("routing.balancing.strategies.sampling", "sample"),
}


@pytest.fixture(autouse=True)
def forgotten():
    """No former name has been imported yet."""
    for name in DOCUMENTED:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("before", DOCUMENTED)
def test_a_former_name_is_the_module_of_today(before):
    today, name = DOCUMENTED[before]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        module = importlib.import_module(before)
    assert module is importlib.import_module(today)
    assert hasattr(module, name)
    # A package on the way there is told as well.
    assert str(told[-1].message) == f"{before} is {today} now: import that"
    assert all(one.category is FutureWarning for one in told)


def test_the_warning_points_at_who_imports():
    with pytest.warns(FutureWarning) as told:
        from routing.replica import Replica
    assert told[0].filename == __file__
    from routing.balancing.replica.state import Replica as Today

    assert Replica is Today


def test_the_module_of_today_keeps_its_own_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("routing.strategies.base")
    from routing.balancing.strategies import base

    assert base.__name__ == base.__spec__.name == "routing.balancing.strategies.base"


def test_what_is_nowhere_is_not_found():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("routing.strategies.of_nobody")
    with pytest.raises(ModuleNotFoundError, match=r"routing\.nothing"):
        importlib.import_module("routing.nothing")
