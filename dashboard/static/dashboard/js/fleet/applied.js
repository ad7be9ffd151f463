/** What a write did, in words: "revision 13 · 2 of 2 workers in 12 ms". */
import { plural } from "../format.js";

/** @param {{revision?: number, workers?: {live: number, applied: number, waited_ms: number}}} answer */
export function applied({ revision, workers }) {
  return [revision ? `revision ${revision}` : "saved", workers ? reach(workers) : ""].filter(Boolean).join(" · ");
}

/** @param {{live: number, applied: number, waited_ms: number}} workers */
function reach({ live, applied, waited_ms }) {
  if (!live) return "no proxy worker is running; they apply it when they start";
  const waited = `${Math.round(waited_ms)} ms`;
  if (applied >= live) return `${applied} of ${plural(live, "worker")} in ${waited}`;
  return `${applied} of ${plural(live, "worker")} within ${waited}, the rest follow`;
}
