/** Table of proxy workers: routing table version, age of the last report, load. */
import { age, count, plural } from "../format.js";
import { html } from "../html.js";
import { matches } from "../components/search.js";
import { Level, Words } from "./health_level.js";

const NAMES_SHOWN = 3;

/** @param {{system: import("./health_level.js").SystemStatus, search: string}} props */
export function Proxies({ system: { proxies, table, reports_known: known }, search }) {
  const found = proxies.filter((worker) => matches(search, [worker.name, worker.state, worker.words, worker.software]));
  return html`<section class="panel table-panel data" aria-label="Proxy workers">
    <h2 class="table-title">Proxy workers <span class="muted">newest table ${table ?? "unknown: the database does not answer"}</span></h2>
    ${found.length ? html`<div class="scroll"><table class="cards">
      <thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col">Table</th><th scope="col" class="num">Report</th><th scope="col" class="num">CPU</th>
        <th scope="col" class="num">Clients</th><th scope="col" class="num">Replica conn.</th><th scope="col" class="num">In flight</th><th scope="col" class="num">Up</th><th scope="col">Version</th></tr></thead>
      <tbody>${found.map((worker) => html`<${Worker} key=${worker.name} worker=${worker} />`)}</tbody>
    </table></div>` : html`<p class="muted nothing">${nothing(known, proxies.length, search)}</p>`}
  </section>`;
}

/** @param {{worker: import("./health_level.js").ProxyWorkerStatus}} props */
function Worker({ worker }) {
  return html`<tr data-worker=${worker.name}>
      <td class="full mono">${worker.name}${worker.site && html` <span class="muted">${worker.site}</span>`}</td>
      <td class="half" data-label="State"><${Level} judged=${worker} /></td>
      <td class="half" data-label="Table"><span class="mono">${worker.table}</span> ${standing(worker)}</td>
      <td class="num" data-label="Report">${age(worker.age_s)} ago</td>
      <td class="num" data-label="CPU">${worker.cpu_percent === null ? "–" : `${worker.cpu_percent.toFixed(0)} %`}</td>
      <td class="num" data-label="Clients">${count(worker.clients)}</td>
      <td class="num" data-label="Replica conn.">${count(worker.upstreams)}</td>
      <td class="num" data-label="In flight">${count(worker.in_flight)}</td>
      <td class="num" data-label="Up">${age(worker.uptime_s)}</td>
      <td class="half" data-label="Version">${worker.software.replace("switchyard ", "")}</td>
    </tr>
    ${worker.level !== "calm" && html`<tr class="note"><td class="wrap full" colspan="10"><${Words} judged=${worker} /></td></tr>`}`;
}

/** @param {import("./health_level.js").ProxyWorkerStatus} worker */
function standing({ behind, state }) {
  if (state === "ahead") return html`<span class="muted">ahead</span>`;
  if (!behind.length) return html`<span class="muted">current</span>`;
  const names = behind.slice(0, NAMES_SHOWN).join(", ");
  return html`<span class="is-unready">behind in ${behind.length > NAMES_SHOWN ? plural(behind.length, "fleet") : names}</span>`;
}

/** @param {boolean} known @param {number} number @param {string} search */
function nothing(known, number, search) {
  if (!known) return "Unknown while Redis does not answer: reports go through it. Proxies keep routing from their last table.";
  return number ? `No proxy worker matches “${search}”.` : "No proxy worker reports.";
}
