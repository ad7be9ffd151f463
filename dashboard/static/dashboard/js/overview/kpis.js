/** KPIs of all fleets together: six figures. */
import { count, duration, percent, rate, text } from "../format.js";
import { html } from "../html.js";
import { Quantity } from "../components/quantity.js";
import { exceptions } from "../components/state.js";

const NO_BREAK = "\u00a0";

/** @param {{model: import("./model.js").OverviewModel, frame: import("../frames.js").OverviewFrame}} props */
export function Kpis({ model: { series }, frame }) {
  const { total } = frame;
  const waiting = total.waiting ?? 0;
  const all = together(frame.fleets);
  const capacity = sumOrNull(frame.fleets.map((fleet) => fleet.capacity));
  return html`<section class="kpis data" aria-label="All fleets">
    <${Kpi} title="Requests" quantity=${rate(total.rps)} sub=${`peak ${text(rate(series.peak("rps") ?? 0))} in 15 min${frame.refused_per_s > 0 ? ` · ${text(rate(frame.refused_per_s)).replace(" ", NO_BREAK)} refused` : ""}`} />
    <${Kpi} title="p50" quantity=${duration(total.p50_s)} sub="all fleets, last 10 s" />
    <${Kpi} title="p99" quantity=${duration(total.p99_s)} sub=${`worst ${text(duration(series.peak("p99")))} in 15 min`} />
    <${Kpi} title="Errors" quantity=${percent(frame.error_percent)} sub=${`${text(rate(total.errors_per_s))} in the last second`} />
    <${Kpi} title="In flight" quantity=${[count(total.in_flight - waiting), capacity ? `of ${count(capacity)}` : ""]}
      sub=${waiting ? `${count(waiting)} more queued` : `peak ${count(series.peak("inFlight") ?? 0)} in 15 min`} />
    <${Kpi} title="Replicas" quantity=${[count(all.taking), `of ${count(frame.replicas)} take requests`]}
      sub=${exceptions(all) || "all ready"} />
  </section>`;
}

/** @param {{title: string, quantity: import("../format.js").Quantity, sub: string}} props */
function Kpi({ title, quantity, sub }) {
  return html`<div class="panel kpi"><h2>${title}</h2><div class="n"><${Quantity} of=${quantity} /></div><div class="sub">${sub}</div></div>`;
}

/** @param {(number | null)[]} values */
function sumOrNull(values) {
  return values.reduce((sum, value) => (sum === null || value === null ? null : sum + value), /** @type {number | null} */ (0));
}

/** @param {import("../frames.js").FleetSummary[]} fleets */
function together(fleets) {
  const all = { states: /** @type {Record<string, number>} */ ({}), eligible: 0, taking: 0 };
  for (const { states, eligible, taking } of fleets) {
    for (const [state, number] of Object.entries(states)) all.states[state] = (all.states[state] ?? 0) + number;
    all.eligible += eligible;
    all.taking += taking;
  }
  return all;
}
