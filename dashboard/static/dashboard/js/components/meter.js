/** Meter: used against capacity, as a bar and in figures; without a known capacity the figure alone. */
import { count } from "../format.js";
import { html } from "../html.js";

/**
 * @param {{value: number, capacity: number | null, loud?: boolean, free?: string, written?: (value: number) => string}} props
 *   `loud`: this one is in trouble; `free`: what it means that there is no capacity; `written`: how figures are
 */
export function Meter({ value, capacity, loud = false, free = "No limit is set: a batching server", written = count }) {
  if (!capacity) return html`<span class="figures" title=${free}>${written(value)}</span>`;
  const filled = Math.min(100, (100 * value) / capacity);
  const tone = loud ? "bad" : filled >= 85 ? "warn" : "";
  return html`<span class="nowrap figures"><span class="meter ${tone}" aria-hidden="true"><i style=${{ width: `${filled}%` }}></i></span
    >${written(value)}<span class="unit">/${written(capacity)}</span></span>`;
}
