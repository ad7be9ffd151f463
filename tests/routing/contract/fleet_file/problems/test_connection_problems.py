"""What a person reads when the address, TLS or credential of a replica in a fleet file is wrong."""

import pytest

from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
    "tls that leads nowhere": (
        FLEET + "    tls: {ca: ca.pem, server_name: '*.a.test', verify: false}\n",
        [
            "4:15 fleets[0].tls.ca: must be a reference to the CA certificates: file:/whole/path or "
            "env:NAME, not a certificate",
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
            "5:24 fleets[0].replicas[0].url: 169.254.169.254 is link-local, where clouds serve "
            "credentials: no replica can be there unless SWITCHYARD_ALLOWED_ADDRESSES names it"
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
            "5:48 fleets[0].replicas[0].credential: must be a reference to the replica's bearer token: "
            "env:NAME or file:/whole/path, not the token",
            "6:48 fleets[0].replicas[1].credential: env:MY KEY: an environment variable's name has letters, "
            "digits and underscores",
            "7:48 fleets[0].replicas[2].credential: file:token: write the whole path, as in "
            "file:/etc/switchyard/replica.token",
            "8:48 fleets[0].replicas[3].credential: SWITCHYARD_… are Switchyard's own settings, which are "
            "never sent to a replica",
            "9:48 fleets[0].replicas[4].credential: must be a reference to the replica's bearer token: "
            "env:NAME or file:/whole/path, not the token",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected
