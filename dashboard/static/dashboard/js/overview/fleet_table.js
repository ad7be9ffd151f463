/** Table of fleets. */
import { duration, percent, rate } from "../format.js";
import { html } from "../html.js";
import { Meter } from "../components/meter.js";
import { Quantity } from "../components/quantity.js";
import { QueueLine } from "../components/queue_line.js";
import { VirtualRows } from "../components/virtual_rows.js";
import { matches } from "../components/search.js";
import { Sparkline } from "../components/sparkline.js";
import { coldStartText } from "../components/queue_text.js";
import { exceptions, Shape, STATES } from "../components/state.js";

const ROW_PX = 51;
const COLUMNS = 10;
/** More replicas than this are counted by state instead of drawn one by one. */
const MOST_DOTS = 12;
const PROTOCOLS = /** @type {Record<string, string>} */ ({ openai: "OpenAI", "open-inference": "V2", generic: "generic" });

/** @typedef {import("../frames.js").FleetSummary} FleetSummary */

/** @param {FleetSummary[]} fleets @param {string} words */
export function foundFleets(fleets, words) {
  return fleets.filter((fleet) => matches(words, [fleet.name, ...fleet.aliases, ...fleet.adapters, PROTOCOLS[fleet.protocol] ?? "", fleet.strategy]));
}

/** @param {{model: import("./model.js").OverviewModel, fleets: FleetSummary[], search: string}} props */
export function FleetTable({ model, fleets, search }) {
  const found = foundFleets(fleets, search);
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Fleets">
      <table class="cards">
        <thead><tr>
          <th scope="col">Fleet</th><th scope="col">Strategy</th><th scope="col" class="num">Requests</th><th><span class="visually-hidden">Requests, 2 min</span></th>
          <th scope="col" class="num">p50</th><th scope="col" class="num">p99</th><th><span class="visually-hidden">p99, 2 min</span></th>
          <th scope="col" class="num">Errors</th><th scope="col">In flight</th><th scope="col">Replicas</th>
        </tr></thead>
        ${found.length
          ? html`<${VirtualRows} items=${found} height=${ROW_PX} columns=${COLUMNS} row=${(/** @type {FleetSummary} */ fleet) =>
              html`<${FleetRow} key=${fleet.name} fleet=${fleet} model=${model} />`} />`
          : html`<tbody><tr><td colspan=${COLUMNS} class="muted full">No fleet is called “${search}”.</td></tr></tbody>`}
      </table>
    </div>
  </section>`;
}

/** @param {{fleet: FleetSummary, model: import("./model.js").OverviewModel}} props */
function FleetRow({ fleet, model }) {
  return html`<tr data-fleet=${fleet.name}>
    <td class="half"><a class="name" href=${`/fleets/${fleet.name}`}>${fleet.name}</a><span class="sub">${[PROTOCOLS[fleet.protocol] ?? fleet.protocol, fleet.aliases.join(", ")].filter(Boolean).join(" · ")}</span></td>
    <td class="half">${fleet.strategy.replaceAll("_", " ")}<span class="sub">revision ${fleet.revision}</span></td>
    <td class="num" data-label="Requests" data-cell="rps"><${Quantity} of=${rate(fleet.rps)} /></td>
    <td class="sparkline"><${Sparkline} values=${model.flow.of(fleet.name)} tone="flow" /></td>
    <td class="num" data-label="p50"><${Quantity} of=${duration(fleet.p50_s)} /></td>
    <td class="num" data-label="p99"><${Quantity} of=${duration(fleet.p99_s)} /></td>
    <td class="sparkline"><${Sparkline} values=${model.slow.of(fleet.name)} tone="slow" /></td>
    <td class=${`num${fleet.error_percent >= 1 ? " is-down" : ""}`} data-label="Errors"><${Quantity} of=${percent(fleet.error_percent)} /></td>
    <td class="half" data-label="In flight" data-cell="in-flight"><${Meter} value=${fleet.in_flight - fleet.queue.waiting} capacity=${fleet.capacity} /><${QueueLine} queue=${fleet.queue} /></td>
    <td class="half" data-label="Replicas"><${Replicas} fleet=${fleet} /></td>
  </tr>`;
}

/** @param {{fleet: FleetSummary}} props */
function Replicas({ fleet }) {
  const { states, replicas, taking, cold } = fleet;
  const present = STATES.filter((state) => states[state]);
  const shapes =
    replicas <= MOST_DOTS
      ? present.map((state) => Array.from({ length: states[state] }, () => html`<${Shape} state=${state} />`))
      : present.map((state) => html`<span class="count"><${Shape} state=${state} />${states[state]}</span>`);
  return html`<span class="dots" aria-hidden="true">${shapes}</span> ${taking} <span class="unit">of ${replicas}</span>
    ${taking < replicas && html`<span class="sub">${cold ? coldStartText(cold) : exceptions(fleet)}</span>`}`;
}
