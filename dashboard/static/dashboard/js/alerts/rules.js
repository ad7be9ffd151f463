/** Rules: those that come with Switchyard and one's own thresholds; what each waits for, and whether it is on. */
import { curl } from "../api.js";
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { age } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { State } from "../components/state.js";
import { ALL_FLEETS } from "./model.js";

const CHANGES = MAY_CHANGE && ALL_FLEETS;
/** @type {[string, string][]} */
const METRICS = [
  ["p99_s", "latency, p99 (s)"], ["p95_s", "latency, p95 (s)"], ["p50_s", "latency, p50 (s)"],
  ["first_token_p99_s", "first token, p99 (s)"], ["first_token_p50_s", "first token, p50 (s)"],
  ["error_percent", "errors (%)"], ["errors_per_s", "errors (1/s)"], ["rps", "requests (1/s)"],
  ["in_flight", "requests in flight"], ["waiting", "requests waiting"], ["queue_p99_s", "queue time, p99 (s)"],
  ["output_tokens_per_s", "output tokens (1/s)"], ["eligible_replicas", "eligible replicas"],
];

/** @param {{model: import("./model.js").AlertsModel}} props */
export function ThresholdForm({ model }) {
  const { threshold: draft, panels } = model;
  return html`<${FormPanel} title="New threshold" draft=${draft} action="Create" submit=${() => model.makeThreshold()} close=${() => panels.close()}
    command=${curl("POST", "/alerts/rules", model.thresholdBody())}>
    <div class="form">
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="slow-chat" required />
      <${TextEntry} draft=${draft} name="fleet" label="Fleet" placeholder="every fleet" help="Empty: each fleet by itself." />
      <${SelectEntry} draft=${draft} name="metric" label="Metric" options=${METRICS} help="Others of a fleet's history can be set by the API." />
      <${SelectEntry} draft=${draft} name="comparison" label="Is wrong when" options=${[["above", "above"], ["below", "below"]]} />
      <${TextEntry} draft=${draft} name="value" label="Value" placeholder="800 ms" required help="A number in the metric's unit, or with a unit: 800 ms, 5 %." />
      <${TextEntry} draft=${draft} name="for_s" label="For (s)" inputmode="decimal" help="How long it must last before it fires." />
      <${SelectEntry} draft=${draft} name="severity" label="Severity" options=${[["warning", "warning"], ["critical", "critical"]]} />
    </div>
  <//>`;
}

/** @param {{model: import("./model.js").AlertsModel}} props */
export function Rules({ model }) {
  const { rules } = model;
  if (!model.settingsRead) return null;
  return html`<section class="panel table-panel data" aria-labelledby="rules-title">
    <h2 id="rules-title" class="table-title">Rules</h2>
    <div class="scroll"><table class="cards">
      <thead><tr><th scope="col">Rule</th><th scope="col">Fires when</th><th scope="col">Severity</th><th scope="col" class="num">For</th><th scope="col">State</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
      <tbody>${rules.map((one) => html`<tr key=${one.name} data-rule=${one.name}>
        <td class="wrap"><b>${one.built_in ? one.title : one.name}</b>${one.built_in ? "" : html`<span class="sub">${one.fleet ?? "every fleet"}</span>`}</td>
        <td class="wrap full">${one.about}</td>
        <td data-label="Severity">${one.severity}</td>
        <td class="num" data-label="For">${one.for_s ? age(one.for_s) : "at once"}</td>
        <td><${State} state=${one.enabled ? "ready" : "maintenance"} word=${one.enabled ? "on" : "off"} />${one.changed && html`<span class="sub">changed</span>`}</td>
        <td class="actions">${CHANGES && html`<button type="button" disabled=${model.row.busy} aria-label=${`Switch ${one.enabled ? "off" : "on"} ${one.title}`} onClick=${() => model.toggleRule(one)}>${one.enabled ? "Switch off" : "Switch on"}</button>
          ${(!one.built_in || one.changed) && html`${" "}<button type="button" disabled=${model.row.busy} aria-label=${`${one.built_in ? "Reset" : "Delete"} ${one.title}`} onClick=${() => model.deleteRule(one)}>${one.built_in ? "Reset" : "Delete"}</button>`}`}</td>
      </tr>`)}</tbody></table></div>
  </section>`;
}
