/** Table cells of a client key's live traffic. */
import { compact, duration, NOTHING, rate, text } from "../format.js";
import { html } from "../html.js";
import { Meter } from "../components/meter.js";
import { Quantity } from "../components/quantity.js";
import { State } from "../components/state.js";
import { FREE } from "./limits.js";
import { reached } from "./status_banner.js";

export const TRAFFIC_COLUMNS = 5;

export function TrafficHeads() {
  return html`<th scope="col">State</th><th scope="col" class="num">Requests</th>
    <th scope="col">In flight</th><th scope="col">Tokens in 60 s</th><th scope="col" class="num">Refused</th>`;
}

/** @param {{one: import("./model.js").ClientKey, traffic: import("./traffic.js").Traffic}} props */
export function TrafficCells({ one, traffic }) {
  const live = traffic.of(one);
  if (!live) return html`<${Unmeasured} one=${one} />`;
  const full = (/** @type {import("./limits.js").Limit} */ name) => live.at_limit.includes(name);
  return html`<td class="half wrap" data-label="State" data-cell="state"><${KeyState} one=${one} live=${live} reached=${reached(one, traffic)} /></td>
    <td class="half num" data-label="Requests" data-cell="requests"><${Quantity} of=${rate(live.rps)} /><span class="sub">${lastMinute(one, live)}</span></td>
    <td class="half" data-label="In flight" data-cell="in-flight"><${Meter} value=${live.in_flight} capacity=${one.max_concurrency} loud=${full("max_concurrency")} free=${FREE} />${live.p95_s !== null && html`<span class="sub" title=${times(live)}>p95 ${text(duration(live.p95_s))}</span>`}</td>
    <td class="half" data-label="Tokens in 60 s" data-cell="tokens"><${Meter} value=${live.tokens} capacity=${one.tokens_per_minute} loud=${full("tokens_per_minute")} free=${FREE} written=${compact} /></td>
    <td class=${`half num${live.limited_per_s ? " is-down" : ""}`} data-label="Refused" data-cell="refused"><${Quantity} of=${rate(live.limited_per_s)} />${live.errors > 0 && html`<span class="sub" title="5xx or broken off, in the last 60 s"><b class="is-down">${compact(live.errors)} failed</b></span>`}</td>`;
}

/** What it may, while nothing says what it does. @param {{one: import("./model.js").ClientKey}} props */
function Unmeasured({ one }) {
  /** @type {[string, number | null, boolean][]} */
  const cells = [
    ["Requests", one.requests_per_minute, true],
    ["In flight", one.max_concurrency, false],
    ["Tokens in 60 s", one.tokens_per_minute, false],
    ["Refused", null, true],
  ];
  return html`<td class="half muted" data-label="State">not measured yet</td>
    ${cells.map(([label, limit, right]) => html`<td class=${right ? "half num" : "half"} key=${label} data-label=${label}>${NOTHING}${limit !== null && html`<span class="unit">/${compact(limit)}</span>`}</td>`)}`;
}

/** "48/60 in 60 s" @param {import("./model.js").ClientKey} one @param {import("../frames.js").ClientKeyLive} live */
function lastMinute(one, live) {
  const limit = one.requests_per_minute;
  return `${compact(live.requests)}${limit === null ? "" : `/${compact(limit)}`} in 60 s`;
}

/** "p50 50 ms, p99 0.2 s, first token p95 12 ms" @param {import("../frames.js").ClientKeyLive} live */
function times({ p50_s, p99_s, first_token_p95_s: first }) {
  const streamed = first === null ? "" : `, first token p95 ${text(duration(first))}`;
  return `In the last 60 s: p50 ${text(duration(p50_s))}, p99 ${text(duration(p99_s))}${streamed}`;
}

/** @param {{one: import("./model.js").ClientKey, live: import("../frames.js").ClientKeyLive, reached: string}} props */
function KeyState({ one, live, reached }) {
  if (reached) return html`<${State} state="unready" word="at its limit" /><span class="sub">${reached}</span>`;
  const used = live.rps || live.in_flight || live.requests || live.tokens;
  return used ? html`<${State} state="ready" word="in use" />` : html`<span class="muted">unused for 60 s</span>`;
}
