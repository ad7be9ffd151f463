/**
 * Types of what the API answers about alerts (controlplane/api/serializers/alerts.py).
 *
 * @typedef {"critical" | "warning"} Severity
 * @typedef {{id: number, reason: string, ends_at: string, created_by: string}} Silenced
 * @typedef {{id: string, rule: string, title: string, state: "firing" | "pending" | "resolved", severity: Severity,
 *   fleet: string | null, replica: string | null, part: string | null, why: string, since: string,
 *   fired_at: string | null, resolved_at: string | null, silence: Silenced | null}} Alert
 * @typedef {{name: string, title: string, about: string, built_in: boolean, changed: boolean, enabled: boolean,
 *   severity: Severity, for_s: number, keep_s: number, fleet: string | null, unit: string}} Rule
 * @typedef {{name: string, kind: string, enabled: boolean, url: string | null, to: string[], severity: Severity,
 *   fleets: string[], waiting: number, failing_since: string | null, last_answer: string, last_taken: boolean | null,
 *   last_sent_at: string | null, secret?: string | null}} Destination
 * @typedef {{id: number, rule: string | null, fleet: string | null, replica: string | null, part: string | null,
 *   reason: string, created_by: string, ends_at: string, active: boolean}} Silence
 */
export {};
