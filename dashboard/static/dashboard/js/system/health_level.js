/**
 * Health levels of the system page, and the types of GET /api/v1/system (controlplane/system/status.py).
 *
 * @typedef {"calm" | "notice" | "warn" | "bad"} Level
 * @typedef {{level: Level, state: string, words: string, cure: string}} ComponentStatus
 * @typedef {ComponentStatus & {name: string, title: string, facts: Record<string, string>}} SystemComponent
 * @typedef {ComponentStatus & {name: string, proxy: string, software: string, pid: number, table: string,
 *   behind: string[], site: string, age_s: number, uptime_s: number, cpu_percent: number | null, clients: number,
 *   upstreams: number, in_flight: number}} ProxyWorkerStatus
 * @typedef {ComponentStatus & {name: string, role: string, software: string, age_s: number, uptime_s: number,
 *   cpu_percent: number | null, memory_bytes: number | null}} ProcessStatus
 * @typedef {{verdict: ComponentStatus, table: string | null, software: string, parts: SystemComponent[],
 *   proxies: ProxyWorkerStatus[], processes: ProcessStatus[], reports_known: boolean}} SystemStatus
 */
import { html } from "../html.js";
import { Shape } from "../components/state.js";

/** Shapes that differ without their colour: circle, half circle, triangle, square. */
const SHAPE = { calm: "ready", notice: "checking", warn: "unready", bad: "down" };

/** The state's own word with the level's shape. @param {{judged: ComponentStatus}} props */
export function Level({ judged: { level, state } }) {
  const shape = SHAPE[level];
  return html`<span class="state is-${shape}"><${Shape} state=${shape} />${state}</span>`;
}

/** What it is about, and what to do. @param {{judged: ComponentStatus, quiet?: boolean}} props `quiet`: nothing while it is well */
export function Words({ judged: { level, words, cure }, quiet = false }) {
  if (quiet && level === "calm") return null;
  return html`${words}${cure && html`<span class="sub cure">${cure}</span>`}`;
}
