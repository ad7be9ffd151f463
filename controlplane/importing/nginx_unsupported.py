"""Unsupported directives of nginx: why they are not in a fleet file, in words."""

from collections.abc import Iterable, Mapping, Sequence

_NOT_NEEDED = "not needed: "
_STAYS = "it configures nginx itself: keep nginx if you still need it"
_TLS = "the proxy's TLS is set by its flags --tls-certificate and --tls-key"
_LIMITS = "there are no rate limits but those of client keys"
_ACCESS = "access is controlled by client keys, created in the control plane"

_GROUPS: Mapping[str, str] = {
    "keepalive keepalive_requests keepalive_timeout keepalive_time": _NOT_NEEDED
    + "connections are kept open and reused",
    "zone": _NOT_NEEDED + "workers of one proxy always share their counts",
    "proxy_http_version": _NOT_NEEDED + "HTTP/1.1 is always used to replicas",
    "proxy_buffering proxy_request_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size "
    "proxy_max_temp_file_size proxy_temp_path proxy_temp_file_write_size chunked_transfer_encoding "
    "tcp_nodelay tcp_nopush sendfile": _NOT_NEEDED
    + "bodies are streamed in both directions, with flow control",
    "proxy_socket_keepalive reset_timedout_connection": _NOT_NEEDED
    + "dead connections are detected by timeouts",
    "proxy_set_header": "the replica gets the client's headers, Host of its own URL, X-Forwarded-For, "
    "X-Forwarded-Proto, Via and X-Request-Id; other headers cannot be set",
    "proxy_send_timeout": "there is no timeout between two pieces of a request; total_s applies",
    "proxy_next_upstream_tries proxy_next_upstream_timeout": "retries are bounded by a budget "
    "(policy.retries) and by total_s",
    "proxy_ssl_server_name": _NOT_NEEDED + "SNI is always sent to replicas over TLS",
    "proxy_ssl_session_reuse": _NOT_NEEDED + "connections are kept open and reused",
    "proxy_ssl_protocols proxy_ssl_ciphers proxy_ssl_conf_command": "TLS 1.2 and 1.3 are used",
    "proxy_ssl_verify_depth": "chains of any usual depth are verified",
    "proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_password_file": "client "
    "certificates are not sent to replicas",
    "client_max_body_size": "a fleet has its own limit, 64 MiB by default: set limits.max_body_bytes",
    "client_body_timeout": "a fleet has a minimum rate: set timeouts.body_grace_s and body_min_bytes_per_s",
    "client_header_timeout": "a fleet has its own limit, 10 s by default: set timeouts.head_s",
    "client_body_buffer_size client_header_buffer_size large_client_header_buffers send_timeout": "the proxy "
    "has its own limits",
    "limit_req limit_req_zone limit_conn limit_conn_zone limit_rate": _LIMITS,
    "auth_basic auth_basic_user_file auth_request auth_request_set auth_jwt allow deny satisfy": _ACCESS,
    "rewrite return try_files error_page sub_filter if set map geo split_clients": "requests are "
    "forwarded unchanged; there are no rewrites and no conditions",
    "proxy_cache proxy_cache_path proxy_cache_valid proxy_cache_key proxy_cache_bypass proxy_no_cache "
    "proxy_cache_use_stale proxy_cache_lock": "responses are not cached",
    "listen": "the proxy's listen address is its flag --listen",
    "server_tokens access_log error_log log_format": "logs and metrics are the proxy's own (docs/proxy.md)",
    "resolver resolver_timeout": _NOT_NEEDED + "names in use are looked up again every 5 s",
    "ntlm queue state sticky_cookie_insert": "Switchyard has no equivalent",
    "grpc_pass fastcgi_pass uwsgi_pass scgi_pass memcached_pass": "replicas are reached over HTTP/1.1 only",
    "stream mail": "it is not HTTP",
    "root index alias autoindex expires gzip gzip_types gzip_min_length gzip_vary gzip_proxied "
    "gzip_comp_level add_header default_type types types_hash_max_size charset etag": "Switchyard serves no "
    "files and sets no response headers",
    "ssl_certificate ssl_certificate_key ssl_protocols ssl_ciphers ssl_session_cache ssl_session_timeout "
    "ssl_prefer_server_ciphers ssl_dhparam ssl_stapling http2 ssl": _TLS,
    "user worker_processes worker_rlimit_nofile worker_cpu_affinity pid events daemon load_module env "
    "pcre_jit thread_pool master_process": _STAYS,
}
_REASONS = {name: why for names, why in _GROUPS.items() for name in names.split()}

AFFINITY = "there are no sticky sessions"
"""Followed by how a replica is picked instead."""
NO_HTTP = ("grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass")
"""Directives that show that an upstream's servers do not speak HTTP."""


def reason(name: str) -> str:
    """Why a directive is not carried over."""
    return _REASONS.get(name, "Switchyard has no equivalent")


def is_boilerplate(name: str) -> bool:
    """Whether it has nothing to do with replicas, so that many may share one line of the report."""
    return _REASONS.get(name, "") in _BOILERPLATE


_BOILERPLATE: Iterable[str] = (_STAYS, _TLS, _REASONS["root"], _REASONS["listen"], _REASONS["error_log"])


def without_secrets(name: str, args: Sequence[str]) -> str:
    """A directive as it may be shown, without what could hold a credential."""
    if any(word in name for word in ("secret", "password", "key")):
        return name
    return " ".join([name, *args[:1]])
