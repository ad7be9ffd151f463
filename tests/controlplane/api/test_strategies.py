"""Every strategy through the API: listed with its form, set with its parameters, refused in words."""

import pytest

from routing.balancing import strategies
from tests.controlplane.conftest import Api


def test_the_list_is_the_registrys_default_first(api: Api) -> None:
    listed = api.get("/strategies").json()
    assert [one["name"] for one in listed] == strategies.names()
    assert listed[0]["name"] == "least_expected_work"
    (choices,) = next(one for one in listed if one["name"] == "power_of_two")["parameters"]
    assert choices["words"]
    del choices["words"]
    assert choices == {"name": "choices", "type": "integer", "default": 2, "minimum": 2, "maximum": 16}


def test_strategies_describe_themselves(api: Api) -> None:
    body = api.get("/strategies").json()
    assert [strategy["name"] for strategy in body] == strategies.names()
    kappa = body[0]["parameters"][0]
    assert kappa | {"name": "kappa", "type": "number", "default": 3.0, "minimum": 0.0} == kappa


CHOSEN = {"string": "x-other", "boolean": False}
"""Of parameters without a maximum."""
WORDS = {"string": "must be text", "boolean": "must be true or false"}


@pytest.mark.parametrize("name", strategies.names())
def test_each_is_set_with_its_parameters_and_out_of_bounds_refused(api: Api, llm: str, name: str) -> None:
    parameters = strategies.describe(name).parameters
    chosen = {one.name: CHOSEN.get(one.type, one.maximum) for one in parameters}
    answer = api.patch("/fleets/llm/policy", {"strategy": name, "parameters": chosen})
    assert answer.status_code == 200
    policy = answer.json()["policy"]
    assert (policy["strategy"], policy["parameters"]) == (name, chosen)
    for one in parameters:
        refused = api.patch("/fleets/llm/policy", {"parameters": {one.name: -1}})
        assert refused.status_code == 400
        (error,) = refused.json()["errors"]
        assert error["pointer"] == f"/parameters/{one.name}"
        words = WORDS.get(one.type, "must be between")
        assert error["detail"].startswith(f"parameter '{one.name}' of {name} {words}")
    assert api.get("/fleets/llm/policy").json()["policy"]["parameters"] == chosen


def test_a_name_that_no_field_can_have_is_refused_at_its_parameter(api: Api, llm: str) -> None:
    change = {"strategy": "consistent_hash", "parameters": {"header": "session id", "load_bound": 2}}
    (error,) = api.patch("/fleets/llm/policy", change).json()["errors"]
    assert error["pointer"] == "/parameters/header"
    assert "must be the name of a header field" in error["detail"]
