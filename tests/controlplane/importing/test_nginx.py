"""``switchyard import nginx``: what a configuration says, read back from the fleet file made of it."""

import pytest

from routing.contract.table import Match, Tls
from tests.controlplane.importing.conftest import SAMPLES

UPSTREAM = "upstream models {{ {} server 10.0.0.1:8000; server 10.0.0.2:8000; }}"


def test_a_whole_configuration_with_includes(run):
    result = run("nginx", SAMPLES / "nginx" / "nginx.conf")
    assert result.status == 0
    names = ["llm_backend", "classifiers", "10.0.3.1-5000", "10.0.4.1-8443", "sticky_chat"]
    assert list(result.fleets) == names
    assert result.fleets["10.0.4.1-8443"].replicas[0].url == "https://10.0.4.1:8443"

    llm = result.fleets["llm_backend"]
    assert (llm.protocol, llm.policy.strategy) == ("openai", "least_connections")
    assert [(one.url, one.weight, one.max_concurrency, one.admin_state) for one in llm.replicas] == [
        ("http://10.0.0.11:8000", 4.0, 32, None),
        ("http://10.0.0.12:8000", 4.0, 32, None),
        ("http://gpu-small.internal:8000", None, None, "maintenance"),
        ("http://10.0.0.19:8000", None, None, "maintenance"),
    ]
    assert llm.match == [
        Match(host="llm.example.com", path_prefix="/v1"),
        Match(host="*.llm.example.com", path_prefix="/v1"),
    ]
    timeouts, ejection = llm.policy.timeouts, llm.policy.ejection
    assert (timeouts.connect_s, timeouts.idle_s, timeouts.first_byte_s, timeouts.total_s) == (
        2,
        900,
        900,
        900,
    )
    assert (ejection.consecutive_failures, ejection.base_s) == (3, 15)

    classifiers = result.fleets["classifiers"]
    assert (classifiers.protocol, classifiers.policy.strategy) == ("open-inference", "power_of_two")
    assert (classifiers.policy.timeouts.idle_s, classifiers.policy.retries.budget_percent) == (30, 0)
    assert result.fleets["sticky_chat"].policy.strategy == "least_expected_work"


def test_comments_say_where_a_value_came_from(run):
    out = run("nginx", SAMPLES / "nginx" / "nginx.conf").out
    assert f"# Made from {SAMPLES / 'nginx' / 'nginx.conf'}" in out
    assert "connect_s: 2  # proxy_connect_timeout 2s, conf.d/models.conf line 22" in out
    assert 'url: "http://10.0.0.11:8000"  # server 10.0.0.11:8000, line 26' in out
    assert "strategy: least_connections  # least_conn, line 24" in out


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("models.conf line 8", "ip_hash: there are no sticky sessions"),
        ("models.conf line 29", "location ~ ^/chat/(.*)$: requests are matched by path prefix"),
        ("models.conf line 30", "proxy_pass http://sticky_chat/$1: the path contains variables"),
        ("models.conf line 33", "location = /health: requests are matched by path prefix"),
        ("models.conf line 49", "proxy_pass http://10.0.3.1:5000/: nginx replaces /forecast/ by /"),
        ("models.conf line 50", "limit_req zone=one: there are no rate limits but those of client keys"),
        ("models.conf line 54", "proxy_pass https://: nginx does not verify certificates without"),
        ("nginx.conf line 1", "user, worker_processes, pid: it configures nginx itself"),
        ("nginx.conf line 11", "mime.types: the file cannot be read: No such file"),
        ("nginx.conf line 17", "map $http_upgrade: requests are forwarded unchanged"),
        ("nginx.conf line 29", "10.0.0.19:8000 backup: there are no standby replicas"),
        ("nginx.conf line 30", "replicas are reached by host and port, not by Unix sockets"),
        ("nginx.conf line 31", "keepalive 64: not needed"),
        ("nginx.conf line 35", "include missing.d/*.conf: no file matches it"),
    ],
)
def test_what_is_not_carried_over_is_listed_with_its_line(run, line, what):
    assert f"{line}: " in run("nginx", SAMPLES / "nginx" / "nginx.conf").note(what)


def test_every_directive_is_carried_or_listed(run):
    """Nothing may vanish: each line of the sample that says something is in one of the two texts."""
    result = run("nginx", SAMPLES / "nginx" / "nginx.conf")
    for path in ("nginx.conf", "conf.d/models.conf"):
        for number, line in enumerate((SAMPLES / "nginx" / path).read_text().splitlines(), 1):
            word = line.strip().partition(" ")[0].rstrip(";")
            if word in ("", "#", "}", "http", "server", "location", "upstream", "default", "''", "include"):
                continue
            if word == "worker_connections":  # told with its block, events
                continue
            said = word in result.told or word in result.out or word == "random" or word == "server_name"
            assert said, f"{path} line {number}: {line}"


def test_values_that_may_be_secrets_are_not_shown(run):
    result = run("nginx", SAMPLES / "nginx" / "nginx.conf")
    assert "proxy_set_header X-Api-Key: " in result.told
    assert "s3cret" not in result.out + result.told


@pytest.mark.parametrize(
    ("said", "strategy", "note"),
    [
        ("", "round_robin", ""),
        ("least_conn;", "least_connections", ""),
        ("random;", "random", ""),
        ("random two;", "power_of_two", ""),
        ("random two least_conn;", "power_of_two", ""),
        ("random two least_time=header;", "power_of_two", "the two are compared by requests in flight"),
        ("least_time last_byte;", "least_response_time", "response times are those of whole responses"),
        ("ip_hash;", "least_expected_work", "there are no sticky sessions"),
        ("hash $request_uri consistent;", "least_expected_work", "there are no sticky sessions"),
    ],
)
def test_methods_become_strategies(nginx, said, strategy, note):
    result = nginx(UPSTREAM.format(said))
    assert result.fleets["models"].policy.strategy == strategy
    assert note in result.told
    assert note or "Not carried over" not in result.told


@pytest.mark.parametrize(
    ("said", "strategy", "notes"),
    [
        (
            "hash $request_uri; sticky cookie s;",
            "least_expected_work",
            {
                "hash $request_uri": "with the default strategy",
                "sticky cookie s": "with the default strategy",
            },
        ),
        ("least_conn; sticky cookie s;", "least_connections", {"sticky cookie s": "least_conn picks"}),
        ("ip_hash; random;", "random", {"ip_hash": "random follows, and nginx takes the last"}),
    ],
)
def test_each_of_several_methods_is_carried_or_listed(nginx, said, strategy, notes):
    result = nginx(UPSTREAM.format(said))
    assert result.fleets["models"].policy.strategy == strategy
    for method, words in notes.items():
        assert words in result.note(f"line 1: {method}: ")


def test_an_upstream_that_does_not_speak_http_is_no_fleet(nginx):
    result = nginx(
        "upstream back { server m.example:443; } upstream plain { server 10.0.0.1:80; }\n"
        "server { location /a { grpc_pass back; } location /b { proxy_pass http://plain; } }"
    )
    assert list(result.fleets) == ["plain"]
    assert "grpc_pass back (" in result.note("upstream back: ")


def test_an_upstream_over_tls(nginx, tmp_path):
    result = nginx(
        "upstream back { server 10.0.0.1:8443; server 10.0.0.2; }\n"
        "proxy_ssl_trusted_certificate certs/ca.pem;\n"
        "server { proxy_ssl_verify on; proxy_ssl_server_name on; proxy_ssl_protocols TLSv1.2;\n"
        "location /v1/ { proxy_pass https://back; } }"
    )
    back = result.fleets["back"]
    assert [one.url for one in back.replicas] == ["https://10.0.0.1:8443", "https://10.0.0.2:80"]
    assert back.tls == Tls(ca=f"file:{tmp_path}/certs/ca.pem", server_name="back")
    assert "With a difference" not in result.told
    assert "SNI is always sent to replicas over TLS" in result.note("proxy_ssl_server_name on")
    assert "proxy_ssl_trusted_certificate, line 2" in result.out


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("proxy_ssl_name models.test; proxy_ssl_verify on;", "models.test"),
        ("proxy_ssl_name models.test; proxy_ssl_verify off;", "models.test"),
        ("proxy_ssl_name $host; proxy_ssl_verify on;", ""),
        ("proxy_ssl_verify on;", ""),
        ("", ""),
    ],
)
def test_what_certificates_must_be_for(nginx, said, name):
    result = nginx(f"server {{ location / {{ {said} proxy_pass https://m.example/base/; }} }}")
    (fleet,) = result.fleets.values()
    assert (fleet.replicas[0].url, fleet.tls) == ("https://m.example:443/base", Tls(server_name=name))
    always = "nginx does not verify certificates without proxy_ssl_verify on; here they always are"
    assert (always in result.told) == ("verify on" not in said)
    assert ("proxy_ssl_name $host: " in result.told) == ("$host" in said)


def test_a_fleet_has_one_ca(nginx):
    ways = (
        "location /a { proxy_ssl_trusted_certificate /a.pem; proxy_pass https://models; }\n"
        "location /b { proxy_ssl_trusted_certificate /b.pem; proxy_pass https://models; }"
    )
    result = nginx(UPSTREAM.format("") + f"server {{ {ways} }}")
    assert result.fleets["models"].tls.ca == "file:/a.pem"
    assert "a fleet has one value: that of" in result.note("proxy_ssl_trusted_certificate /b.pem")


def test_an_upstream_that_is_reached_in_http_too_is_two_fleets(nginx):
    ways = "location /a { proxy_pass https://models; } location /b { proxy_pass http://models; }"
    fleets = nginx(UPSTREAM.format("") + f"server {{ {ways} }}").fleets
    assert {one.replicas[0].url.partition(":")[0]: name for name, one in fleets.items()} == {
        "https": "models",
        "http": "models-2",
    }


def test_port_443_in_plain_http_is_told(nginx):
    assert "gets plain HTTP requests" in nginx("upstream m { server 10.0.0.1:443; }").note("10.0.0.1:443")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://llama", True),
        ("http://models.internal/", True),
        ("http://llama:8000", False),
        ("http://10.0.0.1", False),
        ("http://localhost", False),
    ],
)
def test_a_name_that_may_be_an_upstream_elsewhere_is_told(nginx, address, told):
    result = nginx(f"server {{ location / {{ proxy_pass {address}; }} }}")
    assert len(result.fleets) == 1
    assert ("was found: taken as the host" in result.told) == told


@pytest.mark.parametrize("path", ["$request_uri", "$uri$is_args$args"])
def test_a_path_that_stays_as_it_came_may_be_written_out(nginx, path):
    ways = f"server {{ location /v1/ {{ proxy_pass http://models{path}; }} }}"
    result = nginx(UPSTREAM.format("") + ways)
    assert result.fleets["models"].match == [Match(path_prefix="/v1")]
    assert "Not carried over" not in result.told


@pytest.mark.parametrize("address", ["http://$backend", "http://models$suffix", "$where"])
def test_an_address_made_of_variables_is_not_known(nginx, address):
    result = nginx(UPSTREAM.format("") + f"server {{ location / {{ proxy_pass {address}; }} }}")
    assert "the address depends on the request" in result.note(f"proxy_pass {address}")


@pytest.mark.parametrize(
    "secret",
    [
        "server { location / { proxy_pass http://me:s3cret@10.0.0.1/; } }",
        "server { location /a { proxy_pass http://s3cret@10.0.0.1/; } }",
        "server { location / { proxy_pass https://me:s3cret@10.0.0.1/; } }",
        "server { location /a { proxy_pass http://10.0.0.1/?key=s3cret; } }",
        "server { location / { proxy_pass http://10.0.0.1/x?a=b&key=s3cret$uri; } }",
        "upstream b { server me:s3cret@10.0.0.1:80; }",
        "upstream b { server s3cret@10.0.0.1:80; }",
    ],
)
def test_what_an_address_holds_of_secrets_is_not_shown(nginx, secret):
    result = nginx(UPSTREAM.format("") + secret)
    assert "Not carried over" in result.told
    assert "10.0.0.1" in result.told.partition("Not carried over")[2]
    assert "s3cret" not in result.out + result.told


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("2d", 172800)],
)
def test_times_as_nginx_writes_them(nginx, text, seconds):
    servers = f"server {{ location / {{ proxy_pass http://models; proxy_read_timeout {text}; }} }}"
    result = nginx(UPSTREAM.format("") + servers)
    assert result.fleets["models"].policy.timeouts.idle_s == min(seconds, 86400)
    assert ("idle_s is from 0.001 to 86400 s" in result.told) == (seconds > 86400)


def test_the_inner_setting_holds_and_the_longest_of_several_is_taken(nginx):
    result = nginx(
        UPSTREAM.format("")
        + """
        proxy_read_timeout 10s;
        server {
            server_name a.example;
            location / { proxy_pass http://models; }
            location /slow { proxy_read_timeout 40s; proxy_pass http://models; }
        }"""
    )
    assert result.fleets["models"].policy.timeouts.idle_s == 40
    assert "a fleet has one value: the longest is used" in result.note("proxy_read_timeout 10s")


def test_the_only_way_in_makes_the_default_fleet(nginx):
    ways = (
        "server { location / { proxy_pass http://models; } location /b { proxy_pass http://10.1.1.1:80; } }"
    )
    fleets = nginx(UPSTREAM.format("") + ways).fleets
    assert [fleet.name for fleet in fleets.values() if fleet.default] == ["models"]
    assert fleets["10.1.1.1-80"].match == [Match(path_prefix="/b")]


def test_two_fleets_cannot_have_one_host_and_path(nginx):
    ways = "".join(
        f"server {{ server_name x.example; location /a {{ proxy_pass http://10.0.0.{n}:80; }} }}"
        for n in (1, 2)
    )
    result = nginx(ways)
    assert [len(fleet.match) for fleet in result.fleets.values()] == [1, 0]
    assert "fleet 10.0.0.1-80 already has this host and path" in result.told


def test_a_path_in_front_becomes_part_of_the_url(nginx):
    result = nginx(UPSTREAM.format("") + "server { location / { proxy_pass http://models/base/; } }")
    (fleet,) = result.fleets.values()
    assert [one.url for one in fleet.replicas] == ["http://10.0.0.1:8000/base", "http://10.0.0.2:8000/base"]
    assert "Not carried over" not in result.told


def test_servers_that_differ_in_max_fails(nginx):
    result = nginx("upstream m { server 10.0.0.1:80 max_fails=1; server 10.0.0.2:80 max_fails=9; }")
    assert result.fleets["m"].policy.ejection.consecutive_failures == 5
    assert "servers differ" in result.note("max_fails")


def test_servers_in_reserve_do_not_make_servers_differ(nginx):
    result = nginx(
        "upstream m { server 10.0.0.1:80 max_fails=3 slow_start=30s; server 10.0.0.2:80 max_fails=3 "
        "fail_timeout=10s slow_start=30s; server 10.0.0.3:80 backup; server 10.0.0.4:80 down max_fails=9; }"
    )
    policy = result.fleets["m"].policy
    assert (policy.ejection.consecutive_failures, policy.ejection.base_s) == (3, 10)
    assert policy.slow_start_s == 30
    assert "servers differ" not in result.told
    assert "here that of the servers in use" in result.note("10.0.0.4:80 max_fails=9")


def test_max_fails_0_takes_nobody_out(nginx):
    result = nginx("upstream m { server 10.0.0.1:80 max_fails=0; }")
    assert result.fleets["m"].policy.ejection.max_ejected_percent == 0


def test_an_address_that_no_replica_can_have_is_refused_in_words(nginx):
    result = nginx("upstream m { server 169.254.169.254:80; server 10.0.0.1:80 weight=5000; }")
    assert [one.url for one in result.fleets["m"].replicas] == ["http://10.0.0.1:80"]
    assert "169.254.169.254 is link-local" in result.told
    assert "weight=5000: the number is out of range" in result.told


def test_the_protocol_can_be_chosen(nginx):
    assert nginx(UPSTREAM.format(""), "--protocol", "openai").fleets["models"].protocol == "openai"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no upstream or proxy_pass with an http address"),
        ("events { }\nhttp { }\n", "holds no upstream or proxy_pass with an http address"),
        ("upstream m { server 10.0.0.1:80 }\n", 'line 1: is not an nginx configuration: a ";" is missing'),
        (
            "upstream m {\n server 10.0.0.1:80;\n",
            "line 2: is not an nginx configuration: unexpected end of file",
        ),
        ("upstream m { server 10.0.0.1:80; }\n}\n", 'line 2: is not an nginx configuration: unexpected "}"'),
        ("model_list:\n  - model_name: a\n", "line 2: is not an nginx configuration: it ends in the middle"),
        ("user\0nginx;", "it holds zero bytes"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(nginx, text, words):
    result = nginx(text)
    assert result.status == 1
    assert words in result.told
    assert result.out == ""
    assert len(result.told.splitlines()) <= 4


def test_an_include_that_leads_back_is_told(nginx, tmp_path):
    (tmp_path / "more.conf").write_text("include nginx.conf;\nupstream m { server 10.0.0.1:80; }\n")
    result = nginx("include more.conf;\n")
    assert result.status == 0
    assert "it includes itself" in result.told
