/** Learned speed of a replica: how many times the fleet's usual it takes, how surely, and for how long. */
import { duration, text } from "../format.js";
import { html } from "../html.js";

export const LEARNED = "Time per unit of work, as proxies have learned it, relative to the fleet's usual for the replica's weight";
const RESTED = "There are too few recent requests to tell. It is taken to be nearly as its fleet, and tried again";

/** @param {{learned: import("../frames.js").LearnedLive | null}} props */
export function Learned({ learned }) {
  if (!learned) return html`<span class="muted">–<span class="sub">not learned yet</span></span>`;
  if (!learned.is_known) return html`<span class="muted" title=${RESTED}>–<span class="sub">not asked lately</span></span>`;
  const { times_usual, error, request_s, requests } = learned;
  const title = `A request of mean size takes ${text(duration(request_s))} here, ${times(times_usual)} times what is usual in the fleet for its weight. Evidence: ${requests.toFixed(requests < 9.95 ? 1 : 0)} requests, recent ones above all.`;
  return html`<span title=${title}>${times(times_usual)}<span class="unit"> × fleet</span><span class="sub">± ${percent(error)}, ${text(duration(request_s))}</span></span>`;
}

/** @param {number} factor */
function times(factor) {
  return factor < 0.995 ? factor.toFixed(2) : factor.toFixed(factor < 9.95 ? 1 : 0);
}

/** A standard error, as a factor. @param {number} error */
function percent(error) {
  return `${(100 * (error - 1)).toFixed(0)} %`;
}
