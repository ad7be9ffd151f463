"""Management paths of model servers, by server; and neighbouring paths that are calls."""

import pytest

from routing.contract.exposure import ANY_PATH, INFERENCE_CALL, NO_MANAGEMENT
from routing.protocols.inference_paths import opened_by

MANAGEMENT = {
    "text-generation-webui": (
        *("POST /v1/internal/model/load", "POST /v1/internal/model/unload", "GET /v1/internal/model/info"),
        *(
            "POST /v1/internal/lora/load",
            "POST /v1/internal/lora/unload",
            "POST /v1/internal/stop-generation",
        ),
        *("GET /v1/internal/model/list", "POST /v1/internal/encode"),
    ),
    "TabbyAPI": (
        *(
            "POST /v1/model/load",
            "POST /v1/model/unload",
            "POST /v1/model/embedding/load",
            "POST /v1/download",
        ),
        *("POST /v1/model/embedding/unload", "POST /v1/lora/load", "POST /v1/lora/unload"),
        *("POST /v1/template/switch", "POST /v1/template/unload", "POST /v1/sampling/override/switch"),
        *("POST /v1/sampling/override/unload", "POST /v1/model/draft/load"),
    ),
    "Aphrodite": ("POST /v1/soft_prompt/load", "POST /v1/lora/load", "POST /v1/model/load"),
    "KoboldCpp": (
        *("POST /api/admin/reload_config", "GET /api/admin/list_options", "POST /api/admin/save_state"),
        *("POST /api/extra/abort",),
    ),
    "LocalAI": (
        *("POST /models/apply", "POST /models/delete/x", "POST /backend/shutdown", "POST /backend/monitor"),
        *("POST /backends/apply", "POST /v1/backend/shutdown", "POST /backends/delete/x"),
    ),
    "LM Studio": (
        *("POST /api/v1/models/load", "POST /api/v1/models/unload", "POST /api/v1/models/download"),
    ),
    "Lemonade": (
        *("POST /api/v1/load", "POST /api/v1/unload", "POST /v1/uninstall", "POST /api/v1/install"),
        *("POST /v1/pull", "POST /api/v1/pull", "POST /v1/delete", "POST /v1/params", "POST /v1/log-level"),
        *("POST /v1/halt", "GET /api/v1/halt"),
    ),
    "vLLM": (
        *("POST /pause", "POST /resume", "GET /is_paused", "POST /scale_elastic_ep", "POST /collective_rpc"),
        *("POST /is_scaling_elastic_ep", "POST /reset_prefix_cache", "POST /reset_mm_cache", "POST /sleep"),
        *("POST /reset_encoder_cache", "POST /init_weight_transfer_engine", "POST /start_weight_update"),
        *("POST /finish_weight_update", "POST /update_weights", "GET /get_world_size", "GET /server_info"),
        *("POST /abort_requests", "POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter", "GET /load"),
        *("POST /update_weight_version", "GET /weight_info"),
    ),
    "SGLang": (
        *("POST /update_weights_from_tensor", "POST /init_weights_update_group", "POST /pin_prefix"),
        *("POST /destroy_weights_update_group", "POST /clear_hicache_storage_backend", "POST /slow_down"),
        *("PUT /hicache/storage-backend", "POST /load_lora_adapter_from_tensors", "POST /freeze_gc"),
        *("GET /v1/loads", "POST /set_internal_state", "POST /open_session", "POST /configure_logging"),
        *("POST /release_memory_occupation", "POST /send_weights_to_remote_instance", "POST /wasm"),
        *("POST /post_process_weights", "POST /start_expert_distribution_record"),
    ),
    "llama.cpp": ("POST /models/load", "POST /models/unload", "POST /slots/0", "POST /props"),
    "whisper.cpp": ("POST /load",),
    "mistral.rs": ("POST /re_isq", "POST /v1/models/unload", "POST /v1/models/reload"),
    "Dynamo": ("POST /engine/start_profile", "POST /clear_kv_blocks", "POST /busy_threshold"),
    "Cortex": (
        *("POST /v1/models/pull", "DELETE /processManager/destroy", "POST /v1/engines/x/install"),
        *("PATCH /v1/configs", "POST /v1/hardware/activate"),
    ),
    "LiteLLM": ("POST /model/new", "POST /key/generate", "POST /user/new", "POST /config/update"),
    "Stable Diffusion web UI": ("POST /sdapi/v1/unload-checkpoint", "POST /sdapi/v1/server-kill"),
    "Xinference": ("POST /v1/models", "DELETE /v1/models/x", "GET /v1/cluster/info", "POST /v1/admin/token"),
    "Triton": ("POST /v2/repository/models/x/load", "POST /v2/models/x/trace/setting"),
}
ONLY_SAYS_SO = [
    *("POST /v1/engines/x/install", "POST /v1/cache/reload", "POST /v1/vendor/admin/users"),
    *("POST /openai/v1/x/shutdown", "GET /v1/x/debug/vars", "POST /v1/x/Load_Model"),
]
CALLS = [
    *("POST /v1/chat/completions", "POST /v1/responses", "GET /v1/models", "GET /v1/models/load"),
    *("POST /v1/models/load:predict", "POST /v1/token/encode", "GET /v1/model", "GET /v1/templates"),
    *("GET /v1/loras", "GET /v1/sampling/overrides", "POST /v1/files", "GET /v1/files/x/content"),
    *(
        "POST /v1/audio/speech",
        "POST /v1/anything/else",
        "POST /v1/loading",
        "POST /v1/chat/completions/render",
    ),
    *("GET /v1/auth/permission", "POST /v1/uploads/x/parts", "POST /v1/batches/x/cancel", "GET /v1/realtime"),
    *("POST /v1/fine_tuning/jobs", "DELETE /v1/responses/x", "POST /v1/images/generations"),
    *(
        "POST /v2/models/load/infer",
        "GET /v2/models/admin/ready",
        "POST /v2/models/internal/versions/1/infer",
    ),
]
OWN = [
    "POST /predict",
    "POST /model",
    "POST /jobs/internal-id",
    "POST /v1/x/internal",
    "POST /user",
    "POST /loader",
]


def opened(line: str) -> int:
    method, path = line.encode().split(b" ")
    return opened_by(method, path)


@pytest.mark.parametrize("server", MANAGEMENT)
def test_management_needs_all_or_a_list(server: str) -> None:
    for line in MANAGEMENT[server]:
        if line not in ONLY_SAYS_SO:
            assert opened(line) == ANY_PATH, line


@pytest.mark.parametrize("line", ONLY_SAYS_SO)
def test_what_says_management_below_v1_is_no_inference(line: str) -> None:
    assert not opened(line) & INFERENCE_CALL


@pytest.mark.parametrize("line", CALLS)
def test_calls_are_inference(line: str) -> None:
    assert opened(line) & INFERENCE_CALL


@pytest.mark.parametrize("line", OWN)
def test_generic_servers_have_paths_of_their_own(line: str) -> None:
    assert opened(line) & NO_MANAGEMENT
