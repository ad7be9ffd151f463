/**
 * Frame types: the WebSocket's messages, as controlplane/telemetry/frames.py and dashboard/initial_message.py define
 * them. Types only; tests/dashboard/test_frame_types.py compares them.
 *
 * @typedef {{at: number, rps: number, p50_s: number | null, p99_s: number | null, errors_per_s: number,
 *   in_flight: number, waiting?: number, first_byte_p50_s?: number | null, first_byte_p95_s?: number | null,
 *   first_byte_p99_s?: number | null, output_tokens_per_s?: number, p95_s?: number | null,
 *   first_token_p50_s?: number | null, first_token_p95_s?: number | null, first_token_p99_s?: number | null,
 *   between_tokens_p50_s?: number | null, between_tokens_p95_s?: number | null, between_tokens_p99_s?: number | null,
 *   queue_p50_s?: number | null, queue_p95_s?: number | null, queue_p99_s?: number | null,
 *   input_tokens_per_s?: number, retries_per_s?: number, ejections_per_s?: number, error_reasons?: Record<string, number>}} Point
 *
 * @typedef {{waiting: number, size: number, oldest_wait_s: number, timeout_s: number, state: string, holds: boolean,
 *   queued_per_s: number, full_per_s: number, late_per_s: number, cold_per_s: number, p50_s: number | null,
 *   p99_s: number | null, short_for_s: number}} QueueLive
 *
 * @typedef {{proxy: string, expires_in_s: number}} DrainedAt
 *
 * @typedef {{words: string, short: string, age_s: number, running: number | null, waiting: number | null,
 *   kv_share: number | null, memory_share: number | null, memory_bytes: number | null, utilization: number | null,
 *   requests_per_s: number | null, problem: string}} ReportedLive
 *
 * @typedef {{times_usual: number, error: number, request_s: number, requests: number, is_known: boolean}} LearnedLive
 *
 * @typedef {{kind: string, basis: string, words: string, how_known: string, growth: number, growth_error: number,
 *   batching: number}} ServesLive
 *
 * @typedef {{compared: number, error_percent: number, within_percent: number}} PredictedLive
 *
 * @typedef {{completion: PredictedLive, first_token: PredictedLive | null}} PredictionsLive
 *
 * @typedef {{reason: string, requests: number, words: string}} StayingLive
 *
 * @typedef {{movable: number, movable_prompt_tokens: number, staying: StayingLive[], moved: number,
 *   moved_prompt_tokens: number}} MovingLive
 *
 * @typedef {{results: Record<string, number>, not_sent: Record<string, number>, limit_s: number | null}} SecondAttemptsLive
 *
 * @typedef {{desired: number | null, words: string, taking: number, starting: number, arrivals_per_s: number,
 *   expected_per_s: number, replica_per_s: number | null, used_percent: number | null, age_s: number}} ScalingSignal
 *
 * @typedef {{name: string, eligible: boolean, state: string, why: string, admin_state: string, health: string,
 *   ejected: boolean, weight: number, rps: number, share_percent: number, in_flight: number,
 *   max_concurrency: number | null, p50_s: number | null, p99_s: number | null, errors_per_s: number,
 *   seconds_per_work: number | null, p95_s: number | null, first_token_p50_s: number | null,
 *   first_token_p99_s: number | null, between_tokens_p50_s: number | null, between_tokens_p99_s: number | null,
 *   input_tokens_per_s: number, output_tokens_per_s: number, failures: Record<string, number>, learned: LearnedLive | null, drained_by_hand: DrainedAt[], no_credential: string, locked_out: boolean,
 *   drained_everywhere: boolean, move: boolean, moving: MovingLive | null, memory_short: string, doubt: string, reported: ReportedLive | null,
 *   expected_in_s: number | null}} ReplicaLive
 *
 * @typedef {{loading: number, expected_in_s: number | null}} ColdLive
 *
 * @typedef {{kept_per_s: number, spilled_per_s: number, new_per_s: number}} AffinityLive
 *
 * @typedef {{name: string, stayed_per_s: number, spilled_per_s: number}} SiteLive
 *
 * @typedef {{fleet: string, per_s: number, causes: Record<string, number>}} FallbackLive
 *
 * @typedef {{name: string, protocol: string, aliases: string[], adapters: string[], strategy: string,
 *   revision: number, rps: number, p50_s: number | null, p99_s: number | null, error_percent: number,
 *   output_tokens_per_s: number, input_tokens_per_s: number, retries_per_s: number, ejections_per_s: number, first_token_p50_s: number | null,
 *   first_token_p99_s: number | null, between_tokens_p50_s: number | null, error_reasons: Record<string, number>,
 *   in_flight: number,
 *   queue: QueueLive, affinity: AffinityLive, sites: SiteLive[],
 *   fallbacks: FallbackLive[], no_fallback: Record<string, number>, capacity: number | null, replicas: number,
 *   eligible: number, taking: number, covered: boolean, cold: ColdLive | null, states: Record<string, number>,
 *   would_refuse: number | null, desired_replicas: number | null, desired_age_s: number, unserved_adapters: string[]}} FleetSummary
 *
 * @typedef {{name: string, age_s: number, applied: string, behind: boolean, refused: string, redis_ok: boolean,
 *   cpu_percent: number, clients: number, strategy_trouble: string}} WorkerLive
 *
 * @typedef {{age_s: number, used_bytes: number | null, memory_bytes: number | null, utilization_percent: number | null,
 *   temperature_c: number | null, power_w: number | null, trouble: string, is_defect: boolean, memory_warning: string}} MeasuredLive
 *
 * @typedef {{name: string, exporter: string, age_s: number, problem: string, devices: number, memory_bytes: number | null,
 *   available_bytes: number | null, load_1: number | null, processors: number}} HostLive
 *
 * @typedef {{name: string, memory_bytes: number, usable_bytes: number, held_bytes: number,
 *   leased_bytes: number | null, lease_waits: number, measured: MeasuredLive | null}} AcceleratorLive
 *
 * @typedef {{sequence: number, at: number, table: string, total: Point, replicas: number, eligible: number,
 *   error_percent: number, refused_per_s: number, fleets: FleetSummary[], workers: WorkerLive[],
 *   accelerators: AcceleratorLive[], hosts: HostLive[]}} OverviewFrame
 *
 * @typedef {{reason: string, words: string, requests: number}} ErrorReasonLive
 *
 * @typedef {{sequence: number, at: number, table: string, summary: FleetSummary, point: Point,
 *   replicas: ReplicaLive[], workers: number, workers_current: number,
 *   serves: ServesLive | null, predictions: PredictionsLive | null,
 *   second_attempts: SecondAttemptsLive | null, scaling: ScalingSignal | null, errors: ErrorReasonLive[]}} FleetFrame
 *
 * @typedef {{id: number, name: string, rps: number, limited_per_s: number, in_flight: number, requests: number,
 *   tokens: number, at_limit: string[], errors: number, p50_s: number | null, p95_s: number | null, p99_s: number | null,
 *   first_token_p95_s: number | null}} ClientKeyLive
 *
 * @typedef {{sequence: number, at: number, table: string, workers: number, keys: ClientKeyLive[]}} ClientKeysFrame
 *
 * @typedef {{at: number, rps: number[], p99_s: (number | null)[]}} Sparkline
 *
 * @typedef {{type: "hello", history: Point[], frame: any, age_s: number | null,
 *   sparks: Record<string, Sparkline>}} InitialMessage
 */
export {};
