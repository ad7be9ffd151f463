"""What a person reads when fields of a fleet file are unknown, missing or of the wrong type."""

import pytest

from routing.contract.fleet_file import FleetFileError, loads
from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
    "a typo on line 7": (
        FLEET
        + """\
    policy:
      slow_start_s: 10
      timeouts:
        conect_s: 2
""",
        ['7:9 fleets[0].policy.timeouts.conect_s: unknown field "conect_s"; did you mean "connect_s"?'],
    ),
    "an unknown field like nothing known": (
        "fleets: []\ncolour: blue\n",
        [
            '2:1 colour: unknown field "colour"; a fleet file can have: version, hardware, accelerators, '
            "fleets, client_keys, keys_required"
        ],
    ),
    "an empty file": ("# nothing yet\n", ["1:1 : the file is empty: write at least fleets: []"]),
    "a null document": ("~\n", ["1:1 : the file is empty: write at least fleets: []"]),
    "a list": ("- name: a\n", ["1:1 : must be a fleet file as a group of fields, not a list"]),
    "no fleets": ("version: 1\n", ['1:1 : a fleet file needs "fleets": add it, for example fleets: []']),
    "a later version": ("version: 2\nfleets: []\n", ["1:10 version: must be 1, not 2"]),
    "nothing in a list": ("fleets:\n", ["1:1 fleets: has no value: give it one, or remove it"]),
    "no name and no protocol": (
        "fleets:\n  - aliases: [x]\n",
        [
            '2:5 fleets[0]: a fleet needs "name": add it, for example name: llama-3-8b',
            '2:5 fleets[0]: a fleet needs "protocol": add it, for example protocol: openai',
        ],
    ),
    "no url": (
        FLEET + "    replicas:\n      - name: a\n",
        ['5:9 fleets[0].replicas[0]: a replica needs "url": add it, for example url: "http://10.0.0.1:8000"'],
    ),
    "a misspelt protocol": (
        "fleets:\n  - {name: a, protocol: open_inference}\n",
        [
            "2:25 fleets[0].protocol: must be one of openai, open-inference, generic, not the text "
            '"open_inference"; did you mean "open-inference"?'
        ],
    ),
    "a negative weight": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1, weight: -1}\n",
        ["5:44 fleets[0].replicas[0].weight: must be from 0 to 1000, not -1"],
    ),
    "a weight that says yes": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1, weight: yes}\n",
        ['5:44 fleets[0].replicas[0].weight: must be a number, not the text "yes"'],
    ),
    "a weight that is true": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1, weight: true}\n",
        ["5:44 fleets[0].replicas[0].weight: must be a number, not true"],
    ),
    "a weight in quotes": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1, weight: '2.5'}\n",
        ['5:44 fleets[0].replicas[0].weight: must be a number, not the text "2.5": remove the quotes'],
    ),
    "numbers that are not finite": (
        "hardware:\n  - {name: a, weight: .nan}\n  - {name: b, weight: .inf}\nfleets: []\n",
        [
            "2:23 hardware[0].weight: must be from 0 to 1000, not nan",
            "3:23 hardware[1].weight: must be from 0 to 1000, not inf",
        ],
    ),
    "half a request": (
        FLEET + "    policy: {max_concurrency: 2.5}\n",
        ["4:31 fleets[0].policy.max_concurrency: must be a whole number, not 2.5"],
    ),
    "a default that says yes": (
        FLEET + "    default: yes\n",
        ['4:14 fleets[0].default: must be true or false, not the text "yes"'],
    ),
    "a replica that is not a group": (
        FLEET + "    replicas: [http://h:1]\n",
        ['4:16 fleets[0].replicas[0]: must be a replica as a group of fields, not the text "http://h:1"'],
    ),
    "an objective that nothing could miss": (
        """\
fleets:
  - name: digits
    protocol: open-inference
    policy:
      slo: {latency_s: 600}
    replicas:
      - {name: a, url: http://h:1}
""",
        [
            "5:24 fleets[0].policy.slo.latency_s: must be below timeouts.total_s, which is 600: no "
            "request is served later than that, so nothing could miss it"
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected


def test_all_mistakes_are_reported_at_once_in_file_order() -> None:
    text = FLEET + "    replicas:\n      - {nam: a, url: ftp://h, wieght: 1}\n    polcy: {}\n"
    assert problems_of(text) == [
        '5:9 fleets[0].replicas[0]: a replica needs "name": add it, for example name: a',
        '5:10 fleets[0].replicas[0].nam: unknown field "nam"; did you mean "name"?',
        '5:23 fleets[0].replicas[0].url: the scheme "ftp" is not supported: write http://host:port '
        "or https://host:port",
        '5:32 fleets[0].replicas[0].wieght: unknown field "wieght"; did you mean "weight"?',
        '6:5 fleets[0].polcy: unknown field "polcy"; did you mean "policy"?',
    ]


def test_the_error_reads_as_one_line_per_problem() -> None:
    with pytest.raises(FleetFileError) as caught:
        loads("fleets: []\nfleet: []\n", "fleets.yaml")
    assert str(caught.value) == (
        'fleets.yaml: line 2, column 1: fleet: unknown field "fleet"; did you mean "fleets"?'
    )


def test_a_hopeless_file_is_cut_short() -> None:
    with pytest.raises(FleetFileError) as caught:
        loads("fleets: [" + "x, " * 100 + "]", "fleets.yaml")
    assert len(caught.value.problems) == 100
    assert str(caught.value).endswith("fleets.yaml: and 70 more problems")
