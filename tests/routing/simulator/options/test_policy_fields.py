"""``--policy KEY=VALUE``: any field, checked as in a fleet file."""

import re

import pytest

from routing.contract.policy import Policy, Queue
from routing.contract.policy_rules import POLICY
from routing.simulator.options.policy_fields import with_fields

HERE = Policy(queue=Queue(at="replica", size=7))


def test_fields_of_groups_are_merged_and_others_replaced():
    given = ["max_concurrency=64", "queue.timeout_s=3", "retries.statuses=[502, 503]", "half_close=allow"]
    policy = with_fields(HERE, given)
    assert (policy.max_concurrency, policy.retries.statuses, policy.half_close) == (64, [502, 503], "allow")
    assert policy.queue == Queue(at="replica", size=7, timeout_s=3)
    assert with_fields(policy, ["max_concurrency=null"]).max_concurrency is None
    assert with_fields(HERE, []) == HERE


@pytest.mark.parametrize("name", [*POLICY.fields])
def test_every_field_of_a_policy_can_be_given_or_has_an_option_of_its_own(name):
    with pytest.raises(ValueError, match=r"give --|must be") as refused:
        with_fields(HERE, [f"{name}=-7"])
    assert "unknown field" not in str(refused.value)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("max_concurrency", "'max_concurrency': write it as KEY=VALUE"),
        (".size=3", "'.size=3': write it as KEY=VALUE"),
        ("queue.size=-1", "queue.size: must be "),
        ("queue.sise=1", 'queue.sise: unknown field "sise"; did you mean "size"?'),
        ("strategy=random", "'strategy=random': give --strategies instead"),
        ("parameters.kappa=5", "'parameters.kappa=5': give --parameters instead"),
    ],
)
def test_what_is_wrong_is_said_by_field(field, words):
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        with_fields(HERE, [field])


def test_a_group_is_given_as_a_whole_or_in_part():
    with pytest.raises(ValueError, match="as a whole and in part"):
        with_fields(HERE, ["queue=3", "queue.size=3"])
