/** Table of the control plane's processes: web, Celery workers, beat, conductors. */
import { age } from "../format.js";
import { html } from "../html.js";
import { matches } from "../components/search.js";
import { Level, Words } from "./health_level.js";

const ROLES = /** @type {Record<string, string>} */ ({ web: "web", worker: "Celery worker", beat: "beat", conductor: "conductor" });

/** @param {{system: import("./health_level.js").SystemStatus, search: string}} props */
export function Processes({ system: { processes, reports_known: known }, search }) {
  const found = processes.filter((row) => matches(search, [row.name, row.role, row.state, row.words, row.software]));
  return html`<section class="panel table-panel data" aria-label="Processes">
    <h2 class="table-title">Processes of the control plane</h2>
    ${found.length ? html`<div class="scroll"><table class="cards">
      <thead><tr><th scope="col">Process</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">What it means</th><th scope="col" class="num">Last heartbeat</th>
        <th scope="col" class="num">CPU</th><th scope="col" class="num">Memory</th><th scope="col" class="num">Up</th><th scope="col">Version</th></tr></thead>
      <tbody>${found.map((row) => html`<${Process} key=${`${row.role}/${row.name}`} row=${row} />`)}</tbody>
    </table></div>` : html`<p class="muted nothing">${nothing(known, processes.length, search)}</p>`}
  </section>`;
}

/** @param {{row: import("./health_level.js").ProcessStatus}} props */
function Process({ row }) {
  return html`<tr data-process=${`${row.role}/${row.name}`}>
    <td class="full mono">${row.name}</td>
    <td class="half" data-label="Role">${ROLES[row.role] ?? row.role}</td>
    <td class="half" data-label="State"><${Level} judged=${row} /></td>
    <td class="wrap full"><${Words} judged=${row} /></td>
    <td class="num" data-label="Last heartbeat">${age(row.age_s)} ago</td>
    <td class="num" data-label="CPU">${row.cpu_percent === null ? "–" : `${row.cpu_percent.toFixed(0)} %`}</td>
    <td class="num" data-label="Memory">${row.memory_bytes === null ? "–" : `${(row.memory_bytes / 2 ** 20).toFixed(0)} MiB`}</td>
    <td class="num" data-label="Up">${age(row.uptime_s)}</td>
    <td data-label="Version">${row.software.replace("switchyard ", "") || "–"}</td>
  </tr>`;
}

/** @param {boolean} known @param {number} number @param {string} search */
function nothing(known, number, search) {
  if (!known) return "Unknown while Redis does not answer: heartbeats go through it.";
  return number ? `No process matches “${search}”.` : "No process has sent a heartbeat.";
}
