/** Form fields of the policy settings besides the strategy: concurrency, queue, sites, objective. */
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { idOf } from "./field_ids.js";
import { errorProps, FieldError } from "./field_error.js";

/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./policy_settings.js").Name} Name */

/** @param {{policy: Policy}} props */
export function PolicySettingsFields({ policy }) {
  return html`<div class="fields" role="group" aria-label="Concurrency and queue">
    <${NumberField} policy=${policy} name="max_concurrency" label="Max concurrency" placeholder="no limit" help="Requests in flight at each replica; more are queued. Empty: no limit." />
    <${NumberField} policy=${policy} name="queue.size" label="Queue size" help="Requests that each proxy may queue; one more is answered with 503. 0: no queue. Default 256." />
    <${NumberField} policy=${policy} name="queue.timeout_s" label="Queue timeout" unit="s" help="How long a request may be queued before it is answered with 503. Default 10 s." />
    <${ChoiceField} policy=${policy} name="queue.at" label="Queue at" options=${[["proxy", "the proxy"], ["replica", "the replica"]]} help="Where requests above max concurrency wait. A replica then needs a queue of its own, and max concurrency is no limit." />
    <${ChoiceField} policy=${policy} name="queue.cold" label="Cold start" options=${[["refuse", "503 at once"], ["hold", "queue"]]} help="What happens to requests while every replica is still loading." />
    ${policy.settings.value(policy.stored, "queue.cold") === "hold" && html`<${NumberField} policy=${policy} name="queue.cold_timeout_s" label="Cold start timeout" unit="s" help="How long a request may be queued for the first replica. Default 300 s." />`}
  </div>
  <div class="fields" role="group" aria-label="Sites">
    <${ChoiceField} policy=${policy} name="locality.prefer" label="Site preference" options=${[["site", "own site first"], ["none", "no preference"]]} help="Whether a proxy prefers replicas of its own site, and those without a site, to others." />
    ${policy.settings.value(policy.stored, "locality.prefer") === "site" && html`<${NumberField} policy=${policy} name="locality.spill_above" label="Spill above" help="Utilization of the own site above which requests spill to other sites, from 0 to 1. Default 0.8." />`}
  </div>
  <div class="fields" role="group" aria-label="Objective">
    <${NumberField} policy=${policy} name="slo.first_token_s" label="First token within" unit="s" placeholder="no objective" help="A streamed request goes where its first token is likelier to come in this time. Empty: no objective." />
  </div>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, unit?: string, placeholder?: string}} props */
function NumberField({ policy, name, label, help, unit = "", placeholder = "" }) {
  return html`<${Field} policy=${policy} name=${name} label=${label} help=${help}>
    <span class="nowrap"><input ...${common(policy, name)} type="text" inputmode="decimal" placeholder=${placeholder} autocomplete="off"
      value=${policy.settings.value(policy.stored, name)} onInput=${typed(policy, name)} />${unit && html`<span class="unit"> ${unit}</span>`}</span><//>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, options: string[][]}} props */
function ChoiceField({ policy, name, label, help, options }) {
  const chosen = policy.settings.value(policy.stored, name);
  return html`<${Field} policy=${policy} name=${name} label=${label} help=${help}>
    <select ...${common(policy, name)} value=${chosen} onChange=${typed(policy, name)}>
      ${options.map(([value, words]) => html`<option value=${value} selected=${value === chosen}>${words}</option>`)}
    </select><//>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, children?: any}} props */
function Field({ policy, name, label, help, children }) {
  const id = idOf(name);
  return html`<div class="parameter"><div class="field"><label for=${id}>${label}</label>${children}</div>
    <p class="help" id=${`${id}-help`}>${help}</p><${FieldError} policy=${policy} id=${id} /></div>`;
}

/** @param {Policy} policy @param {Name} name */
function common(policy, name) {
  const id = idOf(name);
  return { id, disabled: policy.busy || !MAY_OPERATE, ...errorProps(policy, id) };
}

/** @param {Policy} policy @param {Name} name */
function typed(policy, name) {
  return (/** @type {any} */ event) => policy.set(name, event.target.value);
}
