/** Proxy workers in the footer: which routing table each uses, and its state. */
import { age, plural } from "../format.js";
import { html } from "../html.js";
import { Shape } from "../components/state.js";
import { workerProblem } from "./status_banner.js";

/** @param {{frame: import("../frames.js").OverviewFrame}} props */
export function Workers({ frame: { workers, table } }) {
  return html`<footer class="panel workers data" aria-label="Proxy workers">
    <span><b>${plural(workers.length, "proxy worker")}</b> · routing table ${table}</span>
    ${workers.map((worker) => html`<${Worker} key=${worker.name} worker=${worker} />`)}
  </footer>`;
}

/** @param {{worker: import("../frames.js").WorkerLive}} props */
function Worker({ worker }) {
  const trouble = workerProblem(worker);
  return html`<span><${Shape} state=${trouble ? "unready" : "ready"} /><span class="mono">${worker.name}</span> ·
    ${" "}${trouble || `table ${worker.applied}`} · <span class="nowrap">${worker.cpu_percent.toFixed(0)} % CPU</span> · <span class="nowrap">${plural(worker.clients, "client")}</span> · <span class="nowrap">last report ${age(worker.age_s)} ago</span></span>`;
}
