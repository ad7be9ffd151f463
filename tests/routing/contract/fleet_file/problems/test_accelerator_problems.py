"""What a person reads when accelerators or memory of a fleet file are wrong."""

import pytest

from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
    "amounts of memory that are on no device": (
        FLEET
        + """\
    replicas:
      - {name: a, url: http://h:1, memory_bytes: 1}
      - {name: b, url: http://h:2, accelerators: [], request_bytes: 1, request_bytes_per_work: 0.5}
      - {name: c, url: http://h:3, memory_bytes: 0, request_bytes: 0, request_bytes_per_work: 0}
""",
        [
            '5:36 fleets[0].replicas[0].memory_bytes: has no effect without "accelerators": name the devices '
            "that the replica runs on, or remove it",
            '6:54 fleets[0].replicas[1].request_bytes: has no effect without "accelerators": name the '
            "devices that the replica runs on, or remove it",
            '6:72 fleets[0].replicas[1].request_bytes_per_work: has no effect without "accelerators": name '
            "the devices that the replica runs on, or remove it",
        ],
    ),
    "devices that are none": (
        """\
accelerators:
  - {name: Node1, memory_bytes: 0, headroom_percent: 100}
  - {name: node1/gpu0, memory_bytes: 1.5}
  - {name: node1/gpu0, memory_bytes: 2}
  - {memory_bytes: 2}
fleets: []
""",
        [
            '2:12 accelerators[0].name: "Node1" is not a valid name of an accelerator: use 1 to 127 '
            "lower-case letters, digits, dots, hyphens, underscores and slashes; begin and end with a letter "
            "or digit",
            "2:33 accelerators[0].memory_bytes: must be from 1 to 1e+15 bytes, not 0",
            "2:54 accelerators[0].headroom_percent: must be from 0 to 99 percent, not 100",
            "3:38 accelerators[1].memory_bytes: must be a whole number, not 1.5",
            '4:12 accelerators[2].name: the name "node1/gpu0" is already taken by accelerators[1]: choose '
            "another",
            '5:5 accelerators[3]: an accelerator needs "name": add it, for example name: node1/gpu0',
        ],
    ),
    "devices that are not there": (
        """\
accelerators: [{name: node1/gpu0, memory_bytes: 5}, {name: node1/gpu1, memory_bytes: many}]
fleets:
  - name: digits
    protocol: open-inference
    replicas:
      - {name: a, url: http://h:1, accelerators: [node1/gpu0, node1/gpu, node1/gpu0, node1/gpu1, tpu]}
""",
        [
            '1:86 accelerators[1].memory_bytes: must be a whole number, not the text "many"',
            '6:63 fleets[0].replicas[0].accelerators[1]: unknown accelerator "node1/gpu"; did you mean '
            '"node1/gpu1"?',
            '6:74 fleets[0].replicas[0].accelerators[2]: the accelerator "node1/gpu0" is listed twice: '
            "remove one",
            '6:98 fleets[0].replicas[0].accelerators[4]: unknown accelerator "tpu"; known: node1/gpu0, '
            "node1/gpu1; add it to the accelerators list",
        ],
    ),
    "weights of two fleets that do not fit on one device": (
        """\
accelerators:
  - {name: node1/gpu0, memory_bytes: 85899345920}
  - {name: node1/gpu1, memory_bytes: 85899345920, headroom_percent: 0}
fleets:
  - name: llm
    protocol: openai
    replicas:
      - {name: a, url: http://h:1, accelerators: [node1/gpu0, node1/gpu1], memory_bytes: 42949672960}
      - {name: b, url: http://h:2, accelerators: [node1/gpu1], memory_bytes: 42949672960}
  - name: small
    protocol: openai
    replicas:
      - {name: a, url: http://h:3, accelerators: [node1/gpu0], memory_bytes: 42949672960}
""",
        [
            "13:78 fleets[1].replicas[0].memory_bytes: does not fit on accelerator node1/gpu0: 80 GiB less "
            "5 % headroom are 76 GiB, and its replicas hold llm/a 40 GiB + small/a 40 GiB = 80 GiB, 4 GiB "
            "too much",
        ],
    ),
    "a request that no device has room for": (
        """\
accelerators: [{name: gpu0, memory_bytes: 1073741824, headroom_percent: 50}]
fleets:
  - name: llm
    protocol: openai
    replicas:
      - {name: a, url: http://h:1, accelerators: [gpu0], memory_bytes: 268435456, request_bytes: 268435456}
      - {name: b, url: http://h:1, accelerators: [gpu0], request_bytes: 268435457}
""",
        [
            "7:73 fleets[0].replicas[1].request_bytes: no request could run on accelerator gpu0: 1 GiB less "
            "50 % headroom are 512 MiB, of which replicas hold 256 MiB, which leaves 256 MiB for requests, "
            "and one at llm/b takes 256 MiB",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected
