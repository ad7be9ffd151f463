"""What a person reads when a policy or a probe of a fleet file is wrong."""

import pytest

from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
    "an unknown strategy": (
        FLEET + "    policy: {strategy: round-robin}\n",
        ['4:24 fleets[0].policy.strategy: unknown strategy "round-robin"; did you mean "round_robin"?'],
    ),
    "a strategy like none": (
        FLEET + "    policy: {strategy: xyz}\n",
        [
            '4:24 fleets[0].policy.strategy: unknown strategy "xyz"; use one of least_expected_work, '
            "round_robin, prudent"
        ],
    ),
    "parameters that the strategy refuses": (
        FLEET + "    policy:\n      strategy: prudent\n      parameters: {kapa: 1.0, kappa: -1.0}\n",
        [
            "6:26 fleets[0].policy.parameters.kapa: prudent has no parameter kapa; its parameters are: kappa",
            "6:38 fleets[0].policy.parameters.kappa: kappa must be above 0, not -1.0",
        ],
    ),
    "a parameter that is a list": (
        FLEET + "    policy: {parameters: {kappa: [1]}}\n",
        ["4:34 fleets[0].policy.parameters.kappa: must be a finite number, text, true or false, not a list"],
    ),
    "an unknown probe preset": (
        FLEET + "    probe: {preset: nim}\n",
        [
            "4:21 fleets[0].probe.preset: must be one of llama.cpp, kserve-v2, vllm, sglang, tgi, triton, "
            'mlserver, ollama, litserve, http, not the text "nim"'
        ],
    ),
    "an http probe without a path": (
        FLEET + "    probe: {preset: http}\n",
        ['4:12 fleets[0].probe: the probe preset http needs "path": add it, for example path: /healthz'],
    ),
    "a path for a preset that has its own": (
        FLEET + "    probe: {preset: vllm, path: /health}\n",
        [
            '4:27 fleets[0].probe.path: the preset vllm has its own requests: remove "path", '
            "or set preset: http"
        ],
    ),
    "a body that GET and HEAD do not carry": (
        FLEET + "    probe: {path: /, method: HEAD, body: x, body_contains: y}\n",
        [
            '4:36 fleets[0].probe.body: a HEAD request carries no body: remove "body", or set method: POST',
            '4:45 fleets[0].probe.body_contains: the response to HEAD has no body: remove "body_contains", '
            "or set method: GET",
        ],
    ),
    "no status accepted": (
        FLEET + "    probe: {path: /, accepted_statuses: []}\n",
        [
            "4:41 fleets[0].probe.accepted_statuses: needs at least 1 of the status codes, 200 to 599",
        ],
    ),
    "sites": (
        """\
fleets:
  - name: digits
    protocol: open-inference
    policy:
      locality: {prefer: zone, spill_above: 80, spill_over: 1}
    replicas:
      - {name: a, url: http://h:1, site: Eu West}
""",
        [
            '5:26 fleets[0].policy.locality.prefer: must be one of site, none, not the text "zone"; did you '
            'mean "none"?',
            "5:45 fleets[0].policy.locality.spill_above: must be from 0 to 1, not 80",
            '5:49 fleets[0].policy.locality.spill_over: unknown field "spill_over"; did you mean '
            '"spill_above"?',
            '7:42 fleets[0].replicas[0].site: "Eu West" is not a valid name: use 1 to 63 lower-case letters, '
            "digits, dots, hyphens and underscores; begin and end with a letter or digit",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected
