"""Management paths of model servers: what stops a server, loads or unloads models, replaces weights, writes
files, or shows its inside. Clients of a fleet have no business there.

Collected from the servers' documentation and route tables: vLLM, SGLang and its router, TensorRT-LLM,
LMDeploy, Dynamo, TGI, llama.cpp, whisper.cpp, mistral.rs, Ollama, Xinference, LitServe, Triton, MLServer,
TensorFlow Serving, TorchServe, DJL Serving, text-generation-webui, TabbyAPI, Aphrodite, KoboldCpp, LocalAI,
LM Studio, Lemonade, Cortex, LiteLLM, Stable Diffusion web UI, and what web frameworks bring along. They are
compared in lower case, as some servers do.
"""

import re

_READS = frozenset({b"GET", b"HEAD", b"OPTIONS"})

_NAMES = (
    # Stopping, sleeping, pausing.
    r"shutdown|exit|quit|halt|terminate|abort|abort_requests?|sleep|wake_?up|is_sleeping|pause|resume|is_paused"
    r"|pause_generation|continue_generation|slow_down|freeze_gc|busy_threshold"
    r"|engine/(?:sleep|wake_up|(?:start|stop)_profile|(?:release|resume)_memory_occupation)"
    # Weights, memory and parallelism.
    r"|[a-z_]*weights?(?:_[a-z_]+)?|weight_(?:update|version|transfer)[a-z_]*|[a-z_]+_memory_occupation"
    r"|release_memory|resume_memory|scale_elastic_ep|is_scaling_elastic_ep|get_world_size"
    r"|collective_rpc|(?:get|set)_internal_state|distserve"
    # Adapters.
    r"|load_lora_adapter[a-z_]*|unload_lora_adapter|lora-adapters"
    r"|(?:loras?|soft[_-]?prompt|template|sampling/overrides?)/(?:load|unload|switch)"
    # Models and programs.
    r"|model/(?:[a-z]+/)?(?:load|unload|reload|download)|model/(?:new|update|delete)|(?:un|re)?load"
    r"|(?:un)?loadmodel|(?:un)?install|re_isq|backends?/(?:shutdown|monitor|apply|delete|install|upgrade)"
    r"|internal/(?:model|lora|stop-generation|encode|decode|token-count|logits|chat-prompt)"
    # Whole folders of administration.
    r"|admin|extra/abort|key/(?:generate|regenerate|update|delete|block|unblock)"
    r"|(?:user|team)/(?:new|update|delete)|config/update|processmanager|register_worker"
    r"|refresh_all_workers"
    r"|(?:sdapi/v1/)?(?:(?:un|re)load-checkpoint|server-(?:kill|stop|restart))|sdapi/v1/options"
    # Caches and slots.
    r"|flush_cache|reset_[a-z_]*cache|clear_[a-z_]*backend|hicache|attach_[a-z_]+|detach_[a-z_]+"
    r"|kv_cache_events|slots|(?:open|close)_session|clear_kv_blocks|pin_prefix"
    # Profiles, traces, logs, figures.
    r"|start_profile|stop_profile|(?:start|stop|dump)_expert_distribution_record|configure_logging"
    r"|set_trace_level|metrics|perf_metrics|monitoring|prometheus|server_info|get_server_info"
    r"|get_server_args|get_loads?|loads"
    # Routers: their workers.
    r"|(?:add|remove|list)_workers?|workers|cluster|supervisor|model_registrations|virtualenvs|wasm"
    # What frameworks bring along.
    r"|actuator|debug|console|cors-proxy|-"
)
_NAMED = re.compile(rf"(?:/openai|/api)?(?:/v[0-9])?/(?:{_NAMES})(?:/|\Z)".encode())

_REPOSITORY = re.compile(
    rb"(?:/v2)?/repository/models/|/v2/(?:trace|logging|systemsharedmemory|cudasharedmemory)(?:/|\Z)"
    rb"|/v2/models/(?:[^/]+/)+trace(?:/|\Z)|/v1/(?:config|download)(?:/|\Z)"
)
"""Triton, MLServer, TensorFlow Serving, TabbyAPI."""

_WRITTEN = re.compile(
    rb"(?:/openai|/api)?(?:/v1)?/models(?:/|\Z)|/workflows(?:/|\Z)|/props(?:/|\Z)"
    rb"|/api/(?:pull|push|create|copy|delete|blobs)(?:/|\Z)|/v1/(?:cache|admin)(?:/|\Z)"
    rb"|(?:/openai|/api)?/v[0-9]/(?:pull|delete|params|log-level|configs|hardware)(?:/|\Z)"
)
"""Reading is harmless there: TorchServe's and DJL's models and workflows, llama.cpp's and Ollama's models,
Lemonade's and Cortex's settings."""

_CALLED = re.compile(
    rb".*/models/(?:.+:[a-z]+|.+/(?:predict|infer|invoke|explain|classify|regress|generate))"
)
"""Calls of one model below a path where models are managed: TensorFlow Serving, KServe V1, SageMaker."""


_SAYS_SO = re.compile(
    rb"/(?:openai/|api/)?v[0-9]/(?!models/)(?:[^/]+/)*"
    rb"(?:(?:un|re)?load(?:_?models?)?|download|(?:un)?install|internal|admin|administration|management"
    rb"|shutdown|restart|reboot|kill|stop_server|debug|exec|shell|plugins?|extensions?)(?:/|\Z)"
)


def says_management(form: bytes) -> bool:
    """Whether one segment of a path below ``/v1/`` is a word for management, such as ``unload``. For paths
    that are in no list. False below ``/v1/models/``, where a segment is a model's name."""
    return _SAYS_SO.match(form.lower()) is not None


def is_management(method: bytes, form: bytes) -> bool:
    """Whether a path, in one of its forms (:mod:`routing.protocols.path_forms`), is a management path."""
    path = form.lower()
    if _NAMED.match(path) is not None or _REPOSITORY.match(path + b"/") is not None:
        return True
    if method in _READS or _WRITTEN.match(path) is None:
        return False
    return method != b"POST" or _CALLED.fullmatch(path) is None
