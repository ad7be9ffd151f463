"""Unsupported directives of nginx: why they are not in a fleet file, in words."""

from collections.abc import Iterable, Mapping, Sequence

_NOT_NEEDED = "not needed: "
_STAYS = "about nginx itself: keep nginx for it where it is still wanted"
_TLS = "Switchyard speaks plain HTTP: keep TLS in front of it"
_ACCESS = "who may ask is decided by client keys, made in the control plane"

_GROUPS: Mapping[str, str] = {
    "keepalive keepalive_requests keepalive_timeout keepalive_time": _NOT_NEEDED
    + "connections are kept open and reused",
    "zone": _NOT_NEEDED + "workers of one proxy always share their counts",
    "proxy_http_version": _NOT_NEEDED + "replicas are always spoken to in HTTP/1.1",
    "proxy_buffering proxy_request_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size "
    "proxy_max_temp_file_size proxy_temp_path proxy_temp_file_write_size chunked_transfer_encoding "
    "tcp_nodelay tcp_nopush sendfile": _NOT_NEEDED
    + "bodies stream both ways, whichever side is ahead is paused",
    "proxy_socket_keepalive reset_timedout_connection": _NOT_NEEDED
    + "dead connections are found by time limits",
    "proxy_set_header": "the replica gets the client's fields, Host of its own URL, X-Forwarded-For, "
    "X-Forwarded-Proto, Via and X-Request-Id; others cannot be set",
    "proxy_send_timeout": "there is no limit on the pause between two pieces of a request; total_s holds",
    "proxy_next_upstream_tries proxy_next_upstream_timeout": "retries are bounded by a budget "
    "(policy.retries) and by total_s",
    "proxy_ssl_server_name": _NOT_NEEDED + "replicas over TLS always hear the name (SNI)",
    "proxy_ssl_session_reuse": _NOT_NEEDED + "connections are kept open and reused",
    "proxy_ssl_protocols proxy_ssl_ciphers proxy_ssl_conf_command": "TLS 1.2 and 1.3 are spoken",
    "proxy_ssl_verify_depth": "chains of any usual depth are verified",
    "proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_password_file": "no certificate of a "
    "client is shown to replicas",
    "client_max_body_size": "a fleet has its own limit, 64 MiB by default: set limits.max_body_bytes",
    "client_body_timeout": "a fleet has a least rate: set timeouts.body_grace_s and body_min_bytes_per_s",
    "client_header_timeout": "a fleet has its own limit, 10 s by default: set timeouts.head_s",
    "client_body_buffer_size client_header_buffer_size large_client_header_buffers send_timeout": "the proxy "
    "has its own limits",
    "limit_req limit_req_zone limit_conn limit_conn_zone limit_rate": "there are no rate limits",
    "auth_basic auth_basic_user_file auth_request auth_request_set auth_jwt allow deny satisfy": _ACCESS,
    "rewrite return try_files error_page sub_filter if set map geo split_clients": "requests are passed on "
    "as they come; nothing is rewritten or chosen by condition",
    "proxy_cache proxy_cache_path proxy_cache_valid proxy_cache_key proxy_cache_bypass proxy_no_cache "
    "proxy_cache_use_stale proxy_cache_lock": "answers are not cached",
    "listen": "where the proxy listens is its flag --listen",
    "server_tokens access_log error_log log_format": "logs and metrics are the proxy's own (docs/proxy.md)",
    "resolver resolver_timeout": _NOT_NEEDED + "names are looked up when a connection is opened",
    "ntlm queue state sticky_cookie_insert": "there is no counterpart",
    "grpc_pass fastcgi_pass uwsgi_pass scgi_pass memcached_pass": "replicas are spoken to in HTTP/1.1 only",
    "stream mail": "it is not HTTP",
    "root index alias autoindex expires gzip gzip_types gzip_min_length gzip_vary gzip_proxied "
    "gzip_comp_level add_header default_type types types_hash_max_size charset etag": "Switchyard serves no "
    "files and adds no fields",
    "ssl_certificate ssl_certificate_key ssl_protocols ssl_ciphers ssl_session_cache ssl_session_timeout "
    "ssl_prefer_server_ciphers ssl_dhparam ssl_stapling http2 ssl": _TLS,
    "user worker_processes worker_rlimit_nofile worker_cpu_affinity pid events daemon load_module env "
    "pcre_jit thread_pool master_process": _STAYS,
}
_REASONS = {name: why for names, why in _GROUPS.items() for name in names.split()}

AFFINITY = "clients do not stay at one replica"
"""Followed by how a request is placed instead."""
NO_HTTP = ("grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass")
"""Ways to an upstream that say that its servers speak something else."""


def reason(name: str) -> str:
    """Why a directive is not carried over."""
    return _REASONS.get(name, "there is no counterpart")


def is_boilerplate(name: str) -> bool:
    """Whether it says nothing about replicas, so that many may share one line of the report."""
    return _REASONS.get(name, "") in _BOILERPLATE


_BOILERPLATE: Iterable[str] = (_STAYS, _TLS, _REASONS["root"], _REASONS["listen"], _REASONS["error_log"])


def without_secrets(name: str, args: Sequence[str]) -> str:
    """A directive as it may be shown: what could hold a credential is left out."""
    if any(word in name for word in ("secret", "password", "key")):
        return name
    return " ".join([name, *args[:1]])
