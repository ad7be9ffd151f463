/** In flight against what fits, as a bar and in figures; without a known capacity the figure alone. */
import { count } from "../format.js";
import { html } from "../html.js";

/** @param {{value: number, capacity: number | null, loud?: boolean}} props `loud`: this one is in trouble */
export function Meter({ value, capacity, loud = false }) {
  if (!capacity) return html`<span class="figures" title="No limit is set: a batching server">${count(value)}</span>`;
  const filled = Math.min(100, (100 * value) / capacity);
  const tone = loud ? "bad" : filled >= 85 ? "warn" : "";
  return html`<span class="nowrap figures"><span class="meter ${tone}" aria-hidden="true"><i style=${{ width: `${filled}%` }}></i></span
    >${count(value)}<span class="unit">/${count(capacity)}</span></span>`;
}
