/** Streams panel: time to first token and between tokens of streamed answers, and tokens a second. */
import { duration, rate, text } from "../format.js";
import { html } from "../html.js";

/** Fleets that have told tokens since the page was opened: the panel stays, so that the page does not jump. */
const seen = new Set();

/** Not there where no answer has tokens. @param {{fleet: string, point: import("../frames.js").Point}} props */
export function StreamsPanel({ fleet, point }) {
  const { input_tokens_per_s: read = 0, output_tokens_per_s: written = 0 } = point;
  if (read || written || point.first_token_p50_s) seen.add(fleet);
  if (!seen.has(fleet)) return "";
  return html`<section class="panel queue data" aria-labelledby="streams-title">
    <h2 id="streams-title">Tokens</h2>
    <span>${perSecond(written)} out, ${perSecond(read)} in</span>
    <span>first after ${percentiles(point.first_token_p50_s, point.first_token_p95_s, point.first_token_p99_s)}</span>
    <span>then each ${percentiles(point.between_tokens_p50_s, point.between_tokens_p95_s, point.between_tokens_p99_s)}</span>
    <span class="muted">p50 · p95 · p99 of streams, last 10 s</span>
  </section>`;
}

/** @param {number} tokens */
function perSecond(tokens) {
  return text(rate(tokens));
}

/** @param {(number | null | undefined)[]} seconds */
function percentiles(...seconds) {
  return seconds.map((each) => text(duration(each))).join(" · ");
}
