"""What a person reads when names, aliases and matches of a fleet file collide or lead nowhere."""

import pytest

from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
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
    "fallbacks that are unknown, of another protocol, the fleet itself, or lead back to it": (
        """\
fleets:
  - {name: a, protocol: openai, policy: {fallback: [{fleet: b}, {fleet: v2}, {fleet: aa}]}}
  - {name: b, protocol: openai, policy: {fallback: [{fleet: a, causes: [no_place]}, {fleet: b}]}}
  - {name: v2, protocol: open-inference}
""",
        [
            "2:61 fleets[0].policy.fallback[0].fleet: leads back to fleet a (a → b → a): remove one of these "
            "fallbacks",
            "2:73 fleets[0].policy.fallback[1].fleet: fleet v2 has the protocol open-inference, and requests "
            "of fleet a are of openai: name a fleet of that protocol",
            '2:86 fleets[0].policy.fallback[2].fleet: unknown fleet "aa"; there are: b, v2; add it first, or '
            "remove it from the list",
            "3:61 fleets[1].policy.fallback[0].fleet: leads back to fleet b (b → a → b): remove one of these "
            "fallbacks",
            "3:93 fleets[1].policy.fallback[1].fleet: fleet b cannot be its own fallback: name another fleet",
        ],
    ),
    "adapters of replicas that their fleet has not, or that are listed twice": (
        FLEET
        + """\
    adapters: [sql, support]
    replicas:
      - {name: a, url: http://h:1, adapters: [sql, sql, suport]}
      - {name: b, url: http://h:2, adapters: [""]}
      - {name: c, url: http://h:3, adapters: sql}
      - {name: d, url: http://h:4, adapters: [vision]}
  - name: llm
    protocol: openai
    replicas: [{name: a, url: http://h:5, adapters: [sql]}]
""",
        [
            '6:52 fleets[0].replicas[0].adapters[1]: the adapter "sql" is listed twice: remove one',
            '6:57 fleets[0].replicas[0].adapters[2]: the fleet has no adapter "suport"; did you mean '
            '"support"?',
            "7:47 fleets[0].replicas[1].adapters[0]: must not be empty",
            '8:46 fleets[0].replicas[2].adapters: must be a list, not the text "sql"',
            '9:47 fleets[0].replicas[3].adapters[0]: the fleet has no adapter "vision"; it has: sql, '
            "support; add it to the fleet's adapters first",
            '12:54 fleets[1].replicas[0].adapters[0]: the fleet has no adapter "sql"; add it to the fleet\'s '
            "adapters first",
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
        ["5:44 fleets[1].default: fleet digits is already the default: only one fleet can be"],
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
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected
