/** Form fields of the policy settings besides the strategy: concurrency, queue, sites. */
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { idOf } from "./field_ids.js";
import { errorProps, FieldError } from "./field_error.js";

/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./policy_settings.js").Name} Name */

/** @param {{policy: Policy}} props */
export function PolicySettingsFields({ policy }) {
  return html`<div class="fields" role="group" aria-label="Concurrency and queue">
    <${NumberField} policy=${policy} name="max_concurrency" label="Max concurrency" placeholder="no limit" help="Requests that each replica works on at once; more wait. Empty: no limit." />
    <${NumberField} policy=${policy} name="queue.size" label="Queue size" help="Requests that may wait at each proxy; one more is answered 503. 0: none waits; default 256." />
    <${NumberField} policy=${policy} name="queue.timeout_s" label="Queue timeout" unit="s" help="How long a request may wait, then it is answered 503. Default 10 s." />
    <${ChoiceField} policy=${policy} name="queue.at" label="Requests wait" options=${[["proxy", "in the proxy"], ["replica", "at the replica"]]} help="Where more than the max concurrency wait. At the replica, which then needs a queue of its own, it is no limit." />
    <${ChoiceField} policy=${policy} name="queue.cold" label="While all load" options=${[["refuse", "503 at once"], ["hold", "wait"]]} help="What requests get while every replica is still loading." />
    ${policy.settings.value(policy.stored, "queue.cold") === "hold" && html`<${NumberField} policy=${policy} name="queue.cold_timeout_s" label="Wait for loading" unit="s" help="How long a request may wait for the first replica. Default 300 s." />`}
  </div>
  <div class="fields" role="group" aria-label="Sites">
    <${ChoiceField} policy=${policy} name="locality.prefer" label="Site preference" options=${[["site", "own site first"], ["none", "all alike"]]} help="Where proxies and replicas say their site: whether a proxy asks the replicas of its own, and those of none, before others." />
    ${policy.settings.value(policy.stored, "locality.prefer") === "site" && html`<${NumberField} policy=${policy} name="locality.spill_above" label="Spill above" help="How busy the own site may be before part of its requests goes to others: 0 to 1, 1 is full; default 0.8." />`}
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
  return { id, disabled: policy.busy || !MAY_CHANGE, ...errorProps(policy, id) };
}

/** @param {Policy} policy @param {Name} name */
function typed(policy, name) {
  return (/** @type {any} */ event) => policy.set(name, event.target.value);
}
