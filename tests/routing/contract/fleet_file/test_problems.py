"""What a person reads when a fleet file is wrong: the exact words, lines and columns."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.fleet_file import FileProblem, FleetFileError, StrategyRules, load, loads
from routing.contract.policy import StrategyParameter


def build(name: str, parameters: Mapping[str, StrategyParameter]) -> object:
    """Parameters as a strategy called `prudent` with one of them, kappa above 0, would check them."""
    for key, value in parameters.items():
        if key != "kappa":
            raise ValueError(f"{name} has no parameter {key}; its parameters are: kappa")
        if not isinstance(value, float) or value <= 0:
            raise ValueError(f"kappa must be above 0, not {value!r}")
    return object()


STRATEGIES = StrategyRules(names=["least_expected_work", "round_robin", "prudent"], build=build)

FLEET = """\
fleets:
  - name: digits
    protocol: open-inference
"""

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
            "fleets, client_keys"
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
    "a name that is no slug": (
        "fleets:\n  - {name: Llama 3, protocol: openai}\n",
        [
            '2:12 fleets[0].name: "Llama 3" is not a valid name: use 1 to 63 lower-case letters, digits, '
            "dots, hyphens and underscores; begin and end with a letter or digit"
        ],
    ),
    "a name that is a number": (
        "fleets:\n  - {name: 8, protocol: openai}\n",
        ["2:12 fleets[0].name: must be text, not the number 8: put it in quotes"],
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
    "tls that leads nowhere": (
        FLEET + "    tls: {ca: ca.pem, server_name: '*.a.test', verify: false}\n",
        [
            "4:15 fleets[0].tls.ca: says where the CA's certificate is: file:/whole/path or env:NAME, never "
            "the certificate itself",
            '4:36 fleets[0].tls.server_name: "*.a.test": write one whole name; a certificate for *.a.test is '
            "for b.a.test",
            '4:48 fleets[0].tls.verify: unknown field "verify"; tls can have: ca, server_name',
        ],
    ),
    "a path that is not whole": (
        FLEET + "    tls: {ca: 'file:ca.pem', server_name: 'a.test:443'}\n",
        [
            "4:15 fleets[0].tls.ca: file:ca.pem: write the whole path, as in file:/etc/switchyard/ca.pem",
            '4:43 fleets[0].tls.server_name: "a.test:443" has a port: a certificate is for a name alone, so '
            "leave it out",
        ],
    ),
    "a replica at the metadata service": (
        FLEET + "    replicas:\n      - {name: a, url: 'http://169.254.169.254'}\n",
        [
            "5:24 fleets[0].replicas[0].url: 169.254.169.254 is link-local, where clouds serve instance "
            "metadata and credentials: no replica can be there"
        ],
    ),
    "two replicas of one name": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1}\n      - {name: a, url: http://h:2}\n",
        ['6:16 fleets[0].replicas[1].name: the name "a" is already taken by replicas[0]: choose another'],
    ),
    "two fleets of one name": (
        FLEET + "  - {name: digits, protocol: generic}\n",
        ['4:12 fleets[1].name: the name "digits" is already taken by fleets[0]: choose another'],
    ),
    "two hardware classes of one name": (
        "hardware:\n  - name: cpu\n  - name: cpu\nfleets: []\n",
        ['3:11 hardware[1].name: the name "cpu" is already taken by hardware[0]: choose another'],
    ),
    "an alias that is a fleet's name, and one that is taken": (
        FLEET + "    aliases: [chat]\n  - name: llm\n    protocol: openai\n    aliases: [digits, chat]\n",
        [
            '7:15 fleets[1].aliases[0]: the alias "digits" is already the name of fleet digits: '
            "choose another",
            '7:23 fleets[1].aliases[1]: the alias "chat" is already an alias of fleet digits: choose another',
        ],
    ),
    "an adapter that is a name, an alias or an adapter already": (
        FLEET + "    aliases: [chat]\n    adapters: [sql, chat, digits]\n"
        "  - name: llm\n    protocol: openai\n    aliases: [sql]\n    adapters: [x, x]\n",
        [
            '5:21 fleets[0].adapters[1]: the adapter "chat" is already an alias of fleet digits: '
            "choose another",
            '5:27 fleets[0].adapters[2]: the adapter "digits" is already the name of fleet digits: '
            "choose another",
            '8:15 fleets[1].aliases[0]: the alias "sql" is already an adapter of fleet digits: '
            "choose another",
            '9:19 fleets[1].adapters[1]: the adapter "x" is already an adapter of fleet llm: choose another',
        ],
    ),
    "an empty alias": (FLEET + "    aliases: ['']\n", ["4:15 fleets[0].aliases[0]: must not be empty"]),
    "matches that lead to two fleets, or are listed twice": (
        FLEET
        + "    match: [{host: A.test, path_prefix: /v1/}, {path_prefix: /x}, {path_prefix: /x/}]\n"
        + "  - {name: llm, protocol: openai, match: [{path_prefix: /v1, host: a.test.}]}\n",
        [
            "4:67 fleets[0].match[2]: path /x is listed twice: remove one",
            "5:43 fleets[1].match[0]: host a.test, path /v1 leads to fleet digits already: "
            "fleet llm needs another host or path",
        ],
    ),
    "matches that match nothing or everything": (
        FLEET
        + """\
    match:
      - {host: "https://a.test"}
      - {host: "a.test:443"}
      - {host: "a.*.test"}
      - {host: "a b"}
      - {path_prefix: v1}
      - {path_prefix: /a//b}
      - {path_prefix: /a/../b}
      - {path_prefix: "/a?b"}
      - {path_prefix: /fleets/llm}
      - {path_prefix: /}
      - {}
      - {hosts: a.test}
""",
        [
            '5:16 fleets[0].match[0].host: "https://a.test" is not a host: write the name alone, as in '
            "llm.corp.example",
            '6:16 fleets[0].match[1].host: "a.test:443" has a port: requests are matched by name alone, so '
            "leave it out",
            '7:16 fleets[0].match[2].host: "a.*.test": a * stands only at the beginning, as in '
            "*.corp.example",
            '8:16 fleets[0].match[3].host: "a b" is not a host name: use letters, digits, hyphens and dots',
            '9:23 fleets[0].match[4].path_prefix: "v1" does not begin with a slash: write /v1',
            '10:23 fleets[0].match[5].path_prefix: the path holds "//": remove the empty part',
            '11:23 fleets[0].match[6].path_prefix: the path holds "." or "..": write the path it leads to',
            '12:23 fleets[0].match[7].path_prefix: a path has no query: remove everything from "?" on',
            "13:23 fleets[0].match[8].path_prefix: a path below /fleets/ names its fleet already: choose "
            "another",
            "14:9 fleets[0].match[9]: matches every request: give it a host or a path_prefix, or set "
            "default: true on the fleet",
            "15:9 fleets[0].match[10]: matches every request: give it a host or a path_prefix, or set "
            "default: true on the fleet",
            '16:10 fleets[0].match[11].hosts: unknown field "hosts"; did you mean "host"?',
        ],
    ),
    "two default fleets": (
        FLEET + "    default: true\n  - {name: llm, protocol: openai, default: true}\n",
        ["5:44 fleets[1].default: fleet digits is the default already: only one fleet can be"],
    ),
    "an unknown hardware class": (
        "hardware:\n  - name: cpu-16\n"
        + FLEET
        + "    replicas:\n      - {name: a, url: http://h:1, hardware: cpu16}\n",
        ['7:46 fleets[0].replicas[0].hardware: unknown hardware class "cpu16"; did you mean "cpu-16"?'],
    ),
    "a hardware class where there are none": (
        FLEET + "    replicas:\n      - {name: a, url: http://h:1, hardware: gpu}\n",
        ['5:46 fleets[0].replicas[0].hardware: unknown hardware class "gpu"; add it to the hardware list'],
    ),
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
            '4:27 fleets[0].probe.path: the preset vllm asks in its own way: remove "path", '
            "or set preset: http"
        ],
    ),
    "a body that GET and HEAD do not carry": (
        FLEET + "    probe: {path: /, method: HEAD, body: x, body_contains: y}\n",
        [
            '4:36 fleets[0].probe.body: a HEAD request carries no body: remove "body", or set method: POST',
            '4:45 fleets[0].probe.body_contains: the answer to HEAD has no body: remove "body_contains", '
            "or set method: GET",
        ],
    ),
    "no status accepted": (
        FLEET + "    probe: {path: /, accepted_statuses: []}\n",
        [
            "4:41 fleets[0].probe.accepted_statuses: must hold at least 1 of status codes, 200 to 599",
        ],
    ),
    "everything that is reserved": (
        """\
fleets:
  - name: digits
    protocol: open-inference
    policy:
      slo: {latency_s: 1}
    replicas:
      - {name: a, url: http://h:1, version: v}
""",
        [
            '5:7 fleets[0].policy.slo: "slo" is reserved and not implemented yet: remove it',
            '7:36 fleets[0].replicas[0].version: "version" is reserved and not implemented yet: remove it',
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
    "credentials that are none, or are the token itself": (
        FLEET
        + """\
    replicas:
      - {name: a, url: http://h:1, credential: hf_AbCdEf}
      - {name: b, url: http://h:2, credential: "env:MY KEY"}
      - {name: c, url: http://h:3, credential: "file:token"}
      - {name: d, url: http://h:4, credential: "env:SWITCHYARD_SECRET_KEY"}
      - {name: e, url: http://h:5, credential: "file:/etc/t\\r\\nX: y"}
""",
        [
            "5:48 fleets[0].replicas[0].credential: says where the replica's bearer token is: env:NAME or "
            "file:/whole/path, never the token itself",
            "6:48 fleets[0].replicas[1].credential: env:MY KEY: an environment variable's name has letters, "
            "digits and underscores",
            "7:48 fleets[0].replicas[2].credential: file:token: write the whole path, as in "
            "file:/etc/switchyard/replica.token",
            "8:48 fleets[0].replicas[3].credential: SWITCHYARD_… are settings of Switchyard's own, which no "
            "replica is told",
            "9:48 fleets[0].replicas[4].credential: says where the replica's bearer token is: env:NAME or "
            "file:/whole/path, never the token itself",
        ],
    ),
    "amounts of memory that are on no device": (
        FLEET
        + """\
    replicas:
      - {name: a, url: http://h:1, memory_bytes: 1}
      - {name: b, url: http://h:2, accelerators: [], request_bytes: 1, request_bytes_per_work: 0.5}
      - {name: c, url: http://h:3, memory_bytes: 0, request_bytes: 0, request_bytes_per_work: 0}
""",
        [
            '5:36 fleets[0].replicas[0].memory_bytes: says nothing without "accelerators": name the devices '
            "that it runs on, or remove it",
            '6:54 fleets[0].replicas[1].request_bytes: says nothing without "accelerators": name the devices '
            "that it runs on, or remove it",
            '6:72 fleets[0].replicas[1].request_bytes_per_work: says nothing without "accelerators": name '
            "the devices that it runs on, or remove it",
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
    "a field written twice": (
        FLEET + "    protocol: openai\n",
        ['4:5 fleets[0]: "protocol" is written twice, first on line 3'],
    ),
    "a merge key": (
        "fleets:\n  - &a {name: a, protocol: openai}\n  - {<<: *a, name: b, protocol: openai}\n",
        ["3:6 fleets[1]: merge keys (<<) are not supported: write the fields out, or alias a whole value"],
    ),
    "a tag": (
        "fleets: !!python/tuple []\n",
        ["1:9 fleets: the tag !!python/tuple is not supported: remove it"],
    ),
    "an alias into itself": (
        "fleets: &a\n  - *a\n",
        ["1:9 fleets[0]: an alias leads back into itself: write the value out"],
    ),
    "a group as a field's name": (
        "fleets: []\n? {a: b}\n: c\n",
        ["2:3 : a field's name must be a word, not a list or group"],
    ),
    "tabs": (
        "fleets:\n\t- name: a\n",
        [
            "2:1 : not valid YAML, while scanning for the next token found character '\\t' that cannot start "
            "any token: indent with spaces, not tabs; quote a value that begins with @, ` or %"
        ],
    ),
    "lines that are not alike": (
        "fleets:\n  - name: a\n     protocol: openai\n",
        [
            "3:14 : not valid YAML, mapping values are not allowed here: is a line indented wrongly, or does "
            'a value hold ": " without quotes?'
        ],
    ),
    "a bracket left open": (
        "fleets: [\n",
        [
            "2:1 : not valid YAML, while parsing a flow node expected the node content, but found "
            "'<stream end>': is a bracket, brace or quote not closed?"
        ],
    ),
    "a quote left open": (
        "fleets: []\nversion: 'one\n",
        [
            "3:1 : not valid YAML, while scanning a quoted scalar found unexpected end of stream: is a "
            "closing quote missing?"
        ],
    ),
    "two documents": (
        "fleets: []\n---\nfleets: []\n",
        [
            "2:1 : not valid YAML, expected a single document in the stream but found another document: "
            "write one document, without a second ---"
        ],
    ),
    "an alias of nothing": (
        "fleets: *none\n",
        ["1:9 : not valid YAML, found undefined alias 'none': define it with & before it is used with *"],
    ),
    "a control character": (
        "fleets: []\nversion: \x07\n",
        ["2:10 : the character U+0007 is not allowed: remove it"],
    ),
}


def problems_of(text: str) -> list[str]:
    with pytest.raises(FleetFileError) as caught:
        loads(text, "fleets.yaml", strategies=STRATEGIES)
    return [f"{line}:{column} {path}: {message}" for line, column, path, message in caught.value.problems]


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


def test_aliases_cannot_make_a_small_file_large() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith("aliases expand to more than 100000 values: write fewer of them")


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 5_000, "- " * 5_000])
def test_nesting_is_limited(deep: str) -> None:
    (problem,) = problems_of(deep)
    assert "values are nested more than 32 deep: is a bracket not closed?" in problem


def test_aliases_cannot_nest_deeper_than_what_is_written_out() -> None:
    lines = ["a0: &a0 " + "[" * 30 + "]" * 30]
    lines += [f"a{i}: &a{i} " + "[" * 30 + f"*a{i - 1}" + "]" * 30 for i in range(1, 100)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith("values are nested more than 32 deep: is a bracket not closed?")


def test_a_file_too_large_to_mean_it_is_refused() -> None:
    (problem,) = problems_of("#" * (8 * 1024 * 1024 + 1))
    assert problem == "1:1 : the file is 8388609 characters long; at most 8388608 are read"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "fleets.yaml"
    path.write_bytes(b"version: 1\nfleets: [\xff]\n")
    with pytest.raises(FleetFileError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: line 2, column 10: not UTF-8: save it as UTF-8"


@given(st.text(max_size=200) | st.text(alphabet="flets: []{}-&*!|>'\"\n\t#<a1.,?%@", max_size=80))
def test_no_text_does_anything_but_load_or_be_refused_with_a_place(text: str) -> None:
    problems: list[FileProblem] = []
    try:
        loads(text)
    except FleetFileError as error:
        problems = error.problems
    assert all(problem.line >= 1 and problem.column >= 1 and problem.message for problem in problems)
