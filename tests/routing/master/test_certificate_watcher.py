"""A proxy whose clients come by HTTPS: its certificate, and the replacement of it while requests go on."""

import contextlib
import hashlib
import http.client
import json
import logging
import os
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.master.certificate_watcher import EXPIRES_SOON_S, CertificateWatcher
from routing.master.options import BadOptions, parse
from routing.tls import certificate
from routing.tls.certificate import CertificateError
from tests.certificates import Authority, Pair, make_certificate
from tests.proxy_process import LIMIT_S, Proxy, Replica, fleet_file, until
from tests.routing.master.test_start_errors import refused


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Pair]:
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificate(folder, "first"), make_certificate(folder, "second")


def fingerprint(pair: Pair) -> str:
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
    return hashlib.sha256(der).hexdigest()


def lay(pair: Pair, folder: Path) -> tuple[Path, Path]:
    """As a tool that renews does it: a folder of its own for each pair, and one link that is swapped."""
    own = folder / f"archive-{pair.certificate.stem}"
    own.mkdir(exist_ok=True)
    (own / "fullchain.pem").write_bytes(pair.certificate.read_bytes())
    (own / "privkey.pem").write_bytes(pair.key.read_bytes())
    (folder / "new").symlink_to(own)
    (folder / "new").replace(folder / "live")
    return folder / "live" / "fullchain.pem", folder / "live" / "privkey.pem"


class Client(http.client.HTTPSConnection):
    """Of either certificate."""

    def __init__(self, proxy: Proxy, *trusted: Pair) -> None:
        context = trusted[0].trusting()
        for pair in trusted[1:]:
            context.load_verify_locations(pair.certificate)
        super().__init__("localhost", proxy.port, timeout=LIMIT_S, context=context)

    def get(self, path: str = "/") -> tuple[int, str]:
        self.request("GET", path)
        answer = self.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def start(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    file = fleet_file(tmp_path / "fleets.yaml", replicas[:1])

    def start(*flags: str | Path) -> Proxy:
        return proxy("--fleets", str(file), *map(str, flags)).ready()

    return start


def in_use(proxy: Proxy, *pairs: Pair) -> str:
    """The fingerprint that a new connection sees."""
    with contextlib.closing(Client(proxy, *pairs)) as client:
        client.connect()
        return hashlib.sha256(client.sock.getpeercert(binary_form=True)).hexdigest()


def test_a_renewed_certificate_is_in_use_and_no_connection_ends(
    tmp_path: Path, replicas: list[Replica], pairs: tuple[Pair, Pair], start: Callable[..., Proxy]
) -> None:
    first, second = pairs
    access = tmp_path / "access.log"
    file, key = lay(first, tmp_path)
    flags = ("--tls-certificate", file, "--tls-key", key, "--workers", "2", "--access-log", access)
    running = start(*flags)
    about = running.status()["certificate"]
    assert (about["fingerprint_sha256"], about["alarm"], about["refused"]) == (fingerprint(first), "", "")
    assert 364 * 86_400 < about["expires_in_s"] < 366 * 86_400
    metrics = running.admin("/metrics")[1]
    found = re.search(r"^switchyard_proxy_certificate_expiry_timestamp_seconds (\S+)$", metrics, re.M)
    assert found
    assert float(found[1]) == pytest.approx(time.time() + about["expires_in_s"], abs=5)

    with (
        contextlib.closing(Client(running, first)) as kept,
        contextlib.closing(Client(running, first)) as streaming,
    ):
        assert kept.get() == (200, "a")
        streaming.request("GET", "/stream")
        stream = streaming.getresponse()
        assert stream.read(5) == b"first"
        lay(second, tmp_path)
        until(lambda: in_use(running, first, second) == fingerprint(second), "the new one is in use")
        # By every worker.
        assert {in_use(running, first, second) for _ in range(8)} == {fingerprint(second)}
        assert running.status()["certificate"]["fingerprint_sha256"] == fingerprint(second)
        assert kept.get() == (200, "a")
        # Drained like any other: what is under way ends well.
        running.signal()
        until(lambda: running.admin("/readyz")[0] == 503, "it drains")
        replicas[0].release.set()
        assert stream.read() == b"last"
    assert running.exit_status() == 0
    lines = [line for line in access.read_text().splitlines() if '"message"' in line]
    assert [json.loads(line)["client"] for line in lines][:1] == ["127.0.0.1"]
    assert "Traceback" not in running.log


def test_a_pair_that_is_none_is_refused_and_may_become_one(
    tmp_path: Path, pairs: tuple[Pair, Pair], start: Callable[..., Proxy]
) -> None:
    """The certificate is replaced, the key later; meanwhile even a new worker has the last good pair."""
    first, second = pairs
    file, key = tmp_path / "server.pem", tmp_path / "server.key"
    file.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    running = start("--tls-certificate", file, "--tls-key", key, "--workers", "1")
    file.write_bytes(second.certificate.read_bytes())
    until(lambda: running.status()["certificate"]["alarm"] == "reload_failed", "it is refused")
    words = f"the private key of --tls-key {key} is not that of the certificate in {file}"
    assert running.status()["certificate"]["refused"] == words
    assert running.log.count(words) == 1
    assert "switchyard_proxy_certificate_reload_failed 1" in running.admin("/metrics")[1]
    assert in_use(running, first) == fingerprint(first)
    [worker] = running.workers()
    os.kill(worker, signal.SIGKILL)
    until(lambda: running.workers() not in ([], [worker]), "there is a successor")
    assert in_use(running, first) == fingerprint(first)
    key.write_bytes(second.key.read_bytes())
    until(lambda: running.status()["certificate"]["alarm"] == "", "it is a pair now")
    assert in_use(running, second) == fingerprint(second)
    assert running.log.count("cannot be replaced") == 1


def test_sighup_reads_the_files_at_once(
    tmp_path: Path, pairs: tuple[Pair, Pair], start: Callable[..., Proxy]
) -> None:
    """It says what came of it, and ends nobody: a service manager may send it to the whole group."""
    both = tmp_path / "both.pem"
    both.write_bytes(pairs[0].certificate.read_bytes() + pairs[0].key.read_bytes())
    running = start("--tls-certificate", both, "--workers", "1")
    said = f"certificate {fingerprint(pairs[0])[:16]}… is in force"
    assert running.log.count(said) == 1
    workers = running.workers()
    for pid in workers:
        os.kill(pid, signal.SIGHUP)
    running.signal(signal.SIGHUP)
    until(lambda: running.log.count(said) == 2, "it is said again")
    assert running.workers() == workers

    # Whoever does not speak TLS, or does not trust the certificate, leaves no trace in the log.
    before = running.log
    assert running.get()[0] == 400
    with pytest.raises(ssl.SSLCertVerificationError):
        in_use(running, pairs[1])
    assert in_use(running, pairs[0]) == fingerprint(pairs[0])
    assert running.log == before


def test_a_start_without_a_pair(tmp_path: Path, replicas: list[Replica], pairs: tuple[Pair, Pair]) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    flags = ("--fleets", str(file), "--tls-certificate", str(pairs[0].certificate))
    status, said = refused(*flags, "--tls-key", str(pairs[1].key))
    assert (status, len(said.splitlines())) == (2, 1)
    assert "is not that of the certificate in" in said
    with pytest.raises(BadOptions, match=r"^--tls-key goes with --tls-certificate$"):
        parse(["--fleets", str(file), "--tls-key", "k"])


BROKEN: dict[str, tuple[Callable[[Pair], object], str]] = {
    "no certificate file": (lambda pair: pair.certificate.unlink(), r"--tls-certificate \S+: No such file"),
    "no key file": (lambda pair: pair.key.unlink(), r"--tls-key \S+: No such file or directory$"),
    "no certificate": (lambda pair: pair.certificate.write_text("hello"), "holds no certificate in PEM form"),
    "a pipe": (lambda pair: _pipe(pair.key), r"--tls-key \S+: it is no file$"),
    "half a certificate": (lambda pair: _damage(pair.certificate), r"OpenSSL cannot use them"),
    "half a key": (lambda pair: _damage(pair.key), r"OpenSSL cannot use them"),
    "no key": (
        lambda pair: pair.key.write_bytes(pair.certificate.read_bytes()),
        "no private key in PEM form$",
    ),
    "a key with a passphrase": (lambda pair: _lock(pair.key), "has a passphrase; give one without"),
    "a key of another kind": (lambda pair: _other_kind(pair.key), "is not that of the certificate"),
}


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _damage(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[-1]]) + "\n")


def _lock(file: Path) -> None:
    _openssl("pkcs8", "-topk8", "-in", str(file), "-out", f"{file}.new", "-passout", "pass:word")
    Path(f"{file}.new").replace(file)


def _other_kind(file: Path) -> None:
    _openssl("genrsa", "-out", str(file), "2048")


def _openssl(*arguments: str) -> str:
    command = ["openssl", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_wrong_with_a_pair_is_said(fault: str, tmp_path: Path) -> None:
    pair = make_certificate(tmp_path)
    spoil, words = BROKEN[fault]
    spoil(pair)
    with pytest.raises(CertificateError, match=words):
        certificate.read(pair.certificate, pair.key)


@pytest.mark.parametrize("days", [5, 30, 20_000, 40_000])
def test_when_a_certificate_expires(days: int, tmp_path: Path) -> None:
    """Times before and after 2050 are written in different forms."""
    pair = make_certificate(tmp_path, days=days)
    found = certificate.read(pair.certificate, pair.key)
    until_when = _openssl("x509", "-in", str(pair.certificate), "-noout", "-enddate")
    assert ssl.cert_time_to_seconds(until_when.removeprefix("notAfter=")) == found.expires_at
    assert found.expires_at == pytest.approx(time.time() + days * 86_400, abs=60)


def test_the_alarm_and_its_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pair = make_certificate(tmp_path, days=30)
    files = CertificateWatcher(pair.certificate, pair.key)
    end = files.in_force.expires_at
    assert [files.alarm(end - left) for left in (EXPIRES_SOON_S + 1, EXPIRES_SOON_S - 1, 0)] == [
        "",
        "expires_soon",
        "expired",
    ]
    for left in (EXPIRES_SOON_S + 1, 5 * 86_400, 4 * 86_400, -1, -2):
        files._warn(end - left)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "the certificate expires in 5.0 days: renew it",
        "the certificate has expired: renew it",
    ]


def test_one_that_has_expired_does_not_take_the_place_of_one_that_has_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, expired = (authority.issue("DNS:localhost", days=days).read_bytes() for days in (1, -1))
    file = tmp_path / "live.pem"
    file.write_bytes(good)
    files = CertificateWatcher(file, file)
    before = files.in_force
    file.write_bytes(expired)
    files.reload()
    assert files.in_force == before
    assert files.alarm(time.time()) == "reload_failed"
    assert files.refused == f"{file} holds a certificate that has expired"
    file.write_bytes(good)
    files.reload()
    assert (files.in_force, files.refused) == (before, "")
