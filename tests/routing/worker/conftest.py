"""Fixtures of the worker tests: whole proxies, as the tests of the master start them."""

from tests.routing.master.conftest import proxy as proxy
from tests.routing.master.conftest import publisher as publisher
from tests.routing.master.conftest import replicas as replicas
