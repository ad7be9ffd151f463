/** Sites panel (locality): the share of requests that stayed at the proxies' own site, and that spilled to others. */
import { share, text } from "../format.js";
import { html } from "../html.js";

/** Not there where sites do not matter. @param {{summary: import("../frames.js").FleetSummary}} props */
export function SitesPanel({ summary: { sites } }) {
  if (!sites.length) return "";
  return html`<section class="panel queue data" aria-labelledby="sites-title">
    <h2 id="sites-title">Sites</h2>
    ${sites.map((site) => html`<${Site} key=${site.name} site=${site} />`)}
  </section>`;
}

/** @param {{site: import("../frames.js").SiteLive}} props */
function Site({ site: { name, stayed_per_s: stayed, spilled_per_s: spilled } }) {
  const part = (/** @type {number} */ value) => text(share((100 * value) / (stayed + spilled)));
  return html`<span>${name}: ${part(stayed)} stayed${spilled > 0 && html`, <span class="muted">${part(spilled)} spilled</span>`}</span>`;
}
