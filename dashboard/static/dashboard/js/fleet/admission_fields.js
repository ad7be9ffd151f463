/** The fields of the policy panel that say how many requests a replica works on, and how many wait. */
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { told, Wrong } from "./wrong_field.js";

/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./admission.js").Name} Name */

/** @param {{policy: Policy}} props */
export function AdmissionFields({ policy }) {
  return html`<div class="fields" role="group" aria-label="Concurrency and queue">
    <${NumberField} policy=${policy} name="max_concurrency" label="Max concurrency" placeholder="no limit" help="Requests that each replica works on at once; more wait. Empty: no limit." />
    <${NumberField} policy=${policy} name="size" label="Queue size" help="Requests that may wait at each proxy; one more is answered 503. 0: none waits; default 256." />
    <${NumberField} policy=${policy} name="timeout_s" label="Queue timeout" unit="s" help="How long a request may wait, then it is answered 503. Default 10 s." />
    <${ChoiceField} policy=${policy} name="at" label="Requests wait" options=${[["proxy", "in the proxy"], ["replica", "at the replica"]]} help="Where more than the max concurrency wait. At the replica, which then needs a queue of its own, it is no limit." />
    <${ChoiceField} policy=${policy} name="cold" label="While all load" options=${[["refuse", "503 at once"], ["hold", "wait"]]} help="What requests get while every replica is still loading." />
    ${policy.admission.value(policy.stored, "cold") === "hold" && html`<${NumberField} policy=${policy} name="cold_timeout_s" label="Wait for loading" unit="s" help="How long a request may wait for the first replica. Default 300 s." />`}
  </div>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, unit?: string, placeholder?: string}} props */
function NumberField({ policy, name, label, help, unit = "", placeholder = "" }) {
  return html`<${Field} policy=${policy} name=${name} label=${label} help=${help}>
    <span class="nowrap"><input ...${common(policy, name)} type="text" inputmode="decimal" placeholder=${placeholder} autocomplete="off"
      value=${policy.admission.value(policy.stored, name)} onInput=${typed(policy, name)} />${unit && html`<span class="unit"> ${unit}</span>`}</span><//>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, options: string[][]}} props */
function ChoiceField({ policy, name, label, help, options }) {
  const chosen = policy.admission.value(policy.stored, name);
  return html`<${Field} policy=${policy} name=${name} label=${label} help=${help}>
    <select ...${common(policy, name)} value=${chosen} onChange=${typed(policy, name)}>
      ${options.map(([value, words]) => html`<option value=${value} selected=${value === chosen}>${words}</option>`)}
    </select><//>`;
}

/** @param {{policy: Policy, name: Name, label: string, help: string, children?: any}} props */
function Field({ policy, name, label, help, children }) {
  return html`<div class="parameter"><div class="field"><label for=${`admission-${name}`}>${label}</label>${children}</div>
    <p class="help" id=${`admission-${name}-help`}>${help}</p><${Wrong} policy=${policy} id=${`admission-${name}`} /></div>`;
}

/** @param {Policy} policy @param {Name} name */
function common(policy, name) {
  return { id: `admission-${name}`, disabled: policy.busy || !MAY_CHANGE, ...told(policy, `admission-${name}`) };
}

/** @param {Policy} policy @param {Name} name */
function typed(policy, name) {
  return (/** @type {any} */ event) => policy.admit(name, event.target.value);
}
