/** Affinity panel: the share of keyed requests that went to their own replica, and of those that spilled. */
import { rate, share, text } from "../format.js";
import { html } from "../html.js";

/** Not there where no request has a key. @param {{summary: import("../frames.js").FleetSummary}} props */
export function AffinityPanel({ summary: { affinity } }) {
  const { kept_per_s: kept, spilled_per_s: spilled, new_per_s: fresh } = affinity;
  const all = kept + spilled + fresh;
  if (!all) return "";
  const part = (/** @type {number} */ value) => text(share((100 * value) / all));
  return html`<section class="panel queue data" aria-labelledby="affinity-title">
    <h2 id="affinity-title">Affinity</h2>
    <span>${part(kept)} of ${text(rate(all))} keyed requests went to their own replica</span>
    ${spilled > 0 && html`<span class="muted">${part(spilled)} spilled: too many in flight at their replica</span>`}
    ${fresh > 0 && html`<span class="muted">${part(fresh)} with a new key</span>`}
  </section>`;
}
