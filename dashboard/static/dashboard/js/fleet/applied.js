/** What a write did, in words: "revision 13 · 2 of 2 workers in 12 ms". */
import { plural } from "../format.js";

/**
 * @param {{changed: string[], revision: number, published: boolean,
 *   workers: {live: number, applied: number, refused: number, waited_ms: number}}} answer of a write
 */
export function applied({ changed, revision, published, workers }) {
  if (!changed.length) return `nothing to change: revision ${revision} has it already`;
  if (!published) return `revision ${revision} · saved; Redis is away, so the workers follow when it is back`;
  return `revision ${revision} · ${reach(workers)}`;
}

/** @param {{live: number, applied: number, refused: number, waited_ms: number}} workers */
function reach({ live, applied, refused, waited_ms }) {
  if (!live) return "no proxy worker is running; they apply it when they start";
  if (refused) return `refused by ${refused} of ${plural(live, "worker")}, which keep the old table`;
  const waited = `${Math.round(waited_ms)} ms`;
  if (applied >= live) return `${applied} of ${plural(live, "worker")} in ${waited}`;
  return `${applied} of ${plural(live, "worker")} within ${waited}, the rest follow`;
}
