/** What exporters say: of a device in its row, and of hosts in a table of their own. */
import { curl } from "../api.js";
import { Copyable } from "../components/copyable.js";
import { State } from "../components/state.js";
import { age } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { MemoryMeter } from "./meter.js";

/** @param {{measured: import("../frames.js").MeasuredLive | null}} props */
export function Measured({ measured }) {
  if (!measured) return html`<span class="muted">–</span>`;
  const { used_bytes: used, memory_bytes: memory, utilization_percent: busy, temperature_c: heat, power_w: power } = measured;
  const said = [busy !== null && `${busy.toFixed(0)} % busy`, heat !== null && `${heat.toFixed(0)} °C`, power !== null && `${power.toFixed(0)} W`, `${age(measured.age_s)} ago`];
  return html`${used !== null && memory !== null && html`<${MemoryMeter} value=${used} of=${memory} />`}
    <span class="sub">${said.filter(Boolean).join(" · ")}</span>
    ${measured.trouble && html`<span class="sub"><b class=${measured.is_defect ? "is-down" : "is-unready"}>${measured.trouble}</b></span>`}
    ${measured.memory_warning && html`<span class="sub"><b class="is-unready">${measured.memory_warning}</b></span>`}`;
}

/** Hosts that have an exporter, and what it says of them. @param {{hosts: import("../frames.js").HostLive[]}} props */
export function Hosts({ hosts }) {
  const command = curl("POST", "/exporters", { name: "node1-gpus", host: "node1", url: "http://10.0.0.1:9400" });
  if (!hosts.length) {
    return html`${MAY_CHANGE && html`<section class="panel empty"><h2>No exporter yet</h2>
      <p>With the exporters of DCGM and of the node, memory in use, utilisation, heat and errors of devices are shown here, beside what is declared.</p>
      <${Copyable} label="Add an exporter" text=${command} /></section>`}`;
  }
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Hosts">
      <table class="cards">
        <thead><tr><th scope="col">Host</th><th scope="col">Exporter</th><th scope="col">Memory in use</th><th scope="col" class="num">Load, 1 min</th><th scope="col" class="num">Devices</th><th scope="col" class="num">Read</th></tr></thead>
        <tbody>${hosts.map((host) => html`<tr key=${host.exporter} data-host=${host.exporter}>
          <td class="half"><b>${host.name}</b></td>
          <td class="half wrap"><${State} state=${host.problem ? "down" : "ready"} word=${host.problem ? "silent" : "answers"} /><span class="sub">${host.problem || host.exporter}</span></td>
          <td class="half" data-label="Memory in use">${host.memory_bytes === null || host.available_bytes === null ? html`<span class="muted">–</span>` : html`<${MemoryMeter} value=${host.memory_bytes - host.available_bytes} of=${host.memory_bytes} loud />`}</td>
          <td class="num" data-label="Load, 1 min">${host.load_1 === null ? html`<span class="muted">–</span>` : html`${host.load_1.toFixed(1)}<span class="sub">of ${host.processors} CPUs</span>`}</td>
          <td class="num" data-label="Devices">${host.devices}</td>
          <td class="num" data-label="Read">${age(host.age_s)} ago</td>
        </tr>`)}</tbody>
      </table>
    </div>
    ${MAY_CHANGE && html`<div class="table-foot"><${Copyable} label="Add an exporter" text=${command} /></div>`}
  </section>`;
}
