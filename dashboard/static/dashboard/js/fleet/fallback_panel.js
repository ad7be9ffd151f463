/** Fallback panel: requests that other fleets have served in this one's place, by cause, and those that stayed. */
import { compact, rate, text } from "../format.js";
import { html } from "../html.js";
import { CAUSES, HINDRANCES } from "./fallback_words.js";

/** Not there where none fell back, and none was kept from it. @param {{summary: import("../frames.js").FleetSummary}} props */
export function FallbackPanel({ summary: { fallbacks, no_fallback: kept } }) {
  if (!fallbacks.length && !Object.keys(kept).length) return "";
  return html`<section class="panel queue data" aria-labelledby="fallbacks-title">
    <h2 id="fallbacks-title">Fallbacks</h2>
    ${fallbacks.map((one) => html`<${To} key=${one.fleet} fallback=${one} />`)}
    ${Object.keys(kept).length > 0 && html`<span class="muted">stayed: ${counts(kept, HINDRANCES)}</span>`}
    <span class="muted">since the proxies' workers began</span>
  </section>`;
}

/** @param {{fallback: import("../frames.js").FallbackLive}} props */
function To({ fallback: { fleet, per_s: now, causes } }) {
  return html`<span>to <a href=${`/fleets/${fleet}`}>${fleet}</a>: ${counts(causes, CAUSES)}${now > 0 && html` <span class="muted">(${text(rate(now))} now)</span>`}</span>`;
}

/** @param {Record<string, number>} counted @param {Record<string, string>} words */
function counts(counted, words) {
  const sorted = Object.entries(counted).sort(([, one], [, other]) => other - one);
  return sorted.map(([name, number]) => `${words[name] ?? name} ${compact(number)}`).join(", ");
}
