/** Rollout status of a write: how many proxy workers have applied it ("revision 13 · 2 of 2 workers in 12 ms"). */
import { plural } from "../format.js";

const AWAY = "Redis does not answer, the workers apply it when it does";

/** `everywhere`: all live workers have it. @typedef {{text: string, everywhere: boolean}} Outcome */

/**
 * @param {{changed: string[], published: boolean, not_published?: string,
 *   workers: {live: number, applied: number, refused: number, waited_ms: number}}} answer of a write
 * @param {string} what it made: "revision 13", "draining"
 * @returns {Outcome}
 */
export function rolloutStatus({ changed, published, not_published, workers }, what) {
  if (!changed.length) return { text: "no change: it was already set", everywhere: true };
  if (!published) return { text: `${what} · saved; ${not_published ?? AWAY}`, everywhere: false };
  return { text: `${what} · ${reach(workers)}`, everywhere: workers.live > 0 && workers.applied >= workers.live };
}

/** @param {{live: number, applied: number, refused: number, waited_ms: number}} workers */
function reach({ live, applied, refused, waited_ms }) {
  if (!live) return "no proxy worker is running; they apply it when they start";
  if (refused) return `refused by ${refused} of ${plural(live, "worker")}, which keep the old table`;
  const waited = `${Math.round(waited_ms)} ms`;
  if (applied >= live) return `${applied} of ${plural(live, "worker")} in ${waited}`;
  return `${applied} of ${plural(live, "worker")} within ${waited}, the rest follow`;
}
