"""Fleet names: read once in a unit of work, and followed through what it writes."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Fleet
from controlplane.services import fleet_files, fleets
from controlplane.services.errors import Invalid
from controlplane.services.unit_of_work import unit_of_work
from routing.contract.fleet_file.structs import FleetEntry, FleetFile

pytestmark = pytest.mark.django_db


def file_of(number: int, mark: str = "") -> FleetFile:
    entries = [
        FleetEntry(name=f"f{index}", protocol="openai", aliases=[f"f{index}-{mark}x"])
        for index in range(number)
    ]
    return FleetFile(fleets=entries)


def readings_of_all(apply: Callable[[], object]) -> int:
    """Queries for the names of all fleets, or of all but one."""
    with CaptureQueriesContext(connection) as queries:
        apply()
    texts = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    return sum('"aliases"' in text and (" WHERE " not in text or " WHERE NOT " in text) for text in texts)


def test_a_file_reads_the_names_as_often_for_many_fleets_as_for_few() -> None:
    few = readings_of_all(lambda: fleet_files.apply(file_of(2), "tests"))
    many = readings_of_all(lambda: fleet_files.apply(file_of(12), "tests"))
    changed = readings_of_all(lambda: fleet_files.apply(file_of(12, "other"), "tests"))
    assert few == many == changed  # one is of what is published
    assert Fleet.objects.get(name="f11").aliases == ["f11-otherx"]


def test_names_follow_what_one_write_does() -> None:
    match = {"path_prefix": "/x"}
    with unit_of_work("tests") as write:

        def create(name: str, **settings: object) -> Fleet:
            fleets.create({"name": name, "protocol": "openai", **settings}, "tests")
            return Fleet.objects.get(name=name)

        def taken(**settings: object) -> str:
            with pytest.raises(Invalid) as caught:
                create("other", **settings)
            return str([error.detail for error in caught.value.errors])

        first = create("first", aliases=["a"], adapters=["b"], match=[match])
        assert "already an alias of fleet first" in taken(aliases=["a"])
        assert "already an adapter of fleet first" in taken(aliases=["b"])
        assert "already the name of fleet first" in taken(adapters=["first"])
        assert "first" in taken(match=[match])
        fleets.put(write, first, {"aliases": ["c"], "match": []})
        second = create("second", aliases=["a"], match=[match])
        assert "already an alias of fleet first" in taken(aliases=["c"])
        assert "already an alias of fleet second" in taken(aliases=["a"])
        fleets.delete("first", "tests")
        fleets.put(write, second, {"aliases": ["a", "b", "c", "first"]})
        assert "already an alias of fleet second" in taken(aliases=["first"])
    assert list(Fleet.objects.values_list("name", "aliases")) == [("second", ["a", "b", "c", "first"])]
