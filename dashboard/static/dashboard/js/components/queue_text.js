/** Queue and cold start as text: how many requests wait, how many are refused and why, when the first replica is expected. */
import { about, age, count, duration, rate, text } from "../format.js";

/** @typedef {import("../frames.js").QueueLive} QueueLive */
/** @typedef {import("../frames.js").ColdLive} ColdLive */

/** "12 of 256 queued, the oldest for 1.8 s". @param {QueueLive} queue */
export function waitText({ waiting, size, oldest_wait_s: oldest }) {
  if (!waiting) return "the queue is empty";
  return `${count(waiting)} of ${count(size)} queued, ${waiting === 1 ? "" : "the oldest "}for ${age(oldest)}`;
}

/** Result of requests that had to wait, over the last 10 s; empty: none had to. @param {QueueLive} queue */
export function queuedText({ queued_per_s: queued, p50_s, p99_s }) {
  if (!queued && p50_s === null) return "";
  const waits = p50_s === null ? "" : `, p50 ${text(duration(p50_s))}, p99 ${text(duration(p99_s))}`;
  return `${text(rate(queued))} queued${waits}`;
}

/** The main reason why requests are refused. @param {QueueLive} queue */
export function refusedReason({ full_per_s: full, late_per_s: late }) {
  return late > full ? "Their wait would exceed the queue timeout" : "The queue is full";
}

/** Why requests were refused in the last 10 s; empty: none was. @param {QueueLive} queue */
export function refusedText({ full_per_s: full, late_per_s: late, cold_per_s: cold, timeout_s: limit }) {
  const parts = [];
  if (full) parts.push(`${text(rate(full))} refused: queue full`);
  if (late) parts.push(`${text(rate(late))} refused: wait over ${text(duration(limit))}`);
  if (cold) parts.push(`${text(rate(cold))} refused: still loading`);
  return parts.join(" · ");
}

/** "loading: expected in about 40 s". @param {ColdLive} cold */
export function coldStartText({ expected_in_s: left }) {
  if (left === null) return "loading: no earlier start is known, so there is no estimate";
  return left > 0 ? `loading: expected in ${about(left)}` : "loading: it takes longer than earlier starts";
}
