"""The table: for each fault what the client gets, in each setup. Never is one truncated and looks whole."""

from collections import Counter

import pytest

from tests.routing.proxy.answers.calls import MESSAGES, RESPONSES, TOKENS, Call
from tests.routing.proxy.answers.faults import FAULTS, FLAPPING, Fault
from tests.routing.proxy.answers.outcomes import FILTERED, PARTLY, WHOLE, outcome_of
from tests.routing.proxy.answers.setups import ALONE, BESIDE, PROMPT_TOKENS, SETUPS, Scene, Setup
from tests.routing.proxy.rig import Answer, Rig

in_each_setup = pytest.mark.parametrize("setup", SETUPS, ids=lambda one: one.name)
REQUESTS = 20
CASES = [
    pytest.param(fault, stream, setup, id=f"{fault.name}-{'stream' if stream else 'plain'}-{setup.name}")
    for fault in FAULTS
    for stream in (False, True)
    for setup in SETUPS
    if fault.expected(setup.name, stream) is not None
]


def usage_is_right(scene: Scene, answer: Answer) -> bool:
    """Whether the usage is that of the server which has answered, or has gone on with the answer."""
    role = "beside" if b"\n: continued" in answer.body else scene.served_by(answer)
    return scene.call.read(answer).usage == (PROMPT_TOKENS[role], TOKENS)


@pytest.mark.parametrize(("fault", "stream", "setup"), CASES)
async def test_what_the_client_gets(rig: Rig, fault: Fault, stream: bool, setup: Setup) -> None:
    scene = await Scene(rig, fault, setup).start(stream)
    answer = await scene.ask(stream)
    outcome = outcome_of(scene.call, answer)
    assert outcome == fault.expected(setup.name, stream)
    if outcome in (WHOLE, FILTERED):
        assert usage_is_right(scene, answer)
    if not fault.is_retried:
        assert scene.asked("fallback") == 0
        # A second replica may be asked beside one that is merely slow.
        assert scene.asked("beside") == 0 or "first_token_limit_s" in setup.policy


@in_each_setup
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_replica_that_flaps(rig: Rig, stream: bool, setup: Setup) -> None:
    scene = await Scene(rig, FLAPPING, setup).start(stream)
    outcomes: Counter[str] = Counter()
    for _ in range(REQUESTS):
        answer = await scene.ask(stream)
        outcome = outcome_of(scene.call, answer)
        outcomes[outcome] += 1
        assert outcome != WHOLE or usage_is_right(scene, answer)
    found = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items(), reverse=True))
    assert found == FLAPPING.expected(setup.name, stream)


BEGUN = ("cut", "stall", "bad chunk", "bad JSON", "early end")
OF_STREAMS = (*BEGUN, "empty", "bad beginning")


@pytest.mark.parametrize("setup", [ALONE, BESIDE], ids=lambda one: one.name)
@pytest.mark.parametrize("call", [MESSAGES, RESPONSES], ids=lambda one: one.path.decode())
@pytest.mark.parametrize(
    "fault",
    [one for one in FAULTS if one.name in OF_STREAMS],
    ids=lambda one: one.name,
)
async def test_streams_of_other_calls(rig: Rig, call: Call, fault: Fault, setup: Setup) -> None:
    """Where it may be sent twice, which of the responses API the policy says."""
    scene = await Scene(rig, fault, setup, call).start(True, retries={"replay_safe": "always"})
    answer = await scene.ask(True)
    outcome = outcome_of(call, answer)
    if fault.name in BEGUN:
        assert outcome == PARTLY
    elif setup is BESIDE:
        assert outcome == WHOLE
        assert usage_is_right(scene, answer)
    else:
        assert answer.status == 502


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "fault", [one for one in FAULTS if one.name in ("429", "reset", "cut")], ids=lambda one: one.name
)
async def test_what_is_stored_is_not_sent_twice(rig: Rig, fault: Fault, stream: bool) -> None:
    """And still no truncated answer looks whole."""
    scene = await Scene(rig, fault, BESIDE, RESPONSES).start(stream)
    answer = await scene.ask(stream)
    assert outcome_of(RESPONSES, answer) != WHOLE
    assert scene.asked("beside") == 0
