/** Form fields of the policy settings besides the strategy: concurrency, queue, sites, first tokens, failures. */
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { FallbackFields } from "./fallback_fields.js";
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
  <div class="fields" role="group" aria-label="Objectives">
    <${NumberField} policy=${policy} name="slo.availability_percent" label="Success objective" unit="%" placeholder="no objective" help="How many of the requests should not fail. Empty: no objective." />
    <${NumberField} policy=${policy} name="slo.latency_s" label="Latency objective" unit="s" placeholder="no objective" help="Within this time a request should be served. Empty: no objective." />
    <${NumberField} policy=${policy} name="slo.percentile" label="Share in time" unit="%" help="How many of the requests should be served, and have their first token, in time. Default 99 %." />
  </div>
  <div class="fields" role="group" aria-label="First tokens">
    <${NumberField} policy=${policy} name="slo.first_token_s" label="First token within" unit="s" placeholder="no objective" help="A streamed request goes where its first token is likelier to come in this time. Empty: no objective." />
    <${NumberField} policy=${policy} name="first_token_limit_s" label="Second replica after" unit="s" placeholder="off" words=${true} help="A streamed request whose replica has sent nothing of an answer by then is sent to a second one as well. auto: the limit is learned; off: none is sent twice." />
    <${NumberField} policy=${policy} name="plain_limit_factor" label="Not streamed: after" unit="× predicted" placeholder="never" help="The same of a request that is not streamed, after so many times its predicted completion, 1.5 or more. Empty: never." />
  </div>
  <div class="fields" role="group" aria-label="Failures">
    <${ChoiceField} policy=${policy} name="continuation" label="Streams that break off" options=${[["off", "end there"], ["auto", "are continued"]]} help="Continued: another replica of the same version goes on with the answer, if it can. What was sent is kept until then, some 250 bytes a token." />
    <${NumberField} policy=${policy} name="retries.budget_percent" label="Retry budget" unit="%" help="At most this share of the requests is sent again after a failure, plus 2 a second; each at most twice. 0: none. Default 20 %." />
  </div>
  <${FallbackFields} policy=${policy}>
    <${NumberField} policy=${policy} name="fallback_budget_percent" label="Fallback budget" unit="%" help="At most this share of the requests falls back, plus 2 a second. 0: none. Default 100 %." />
  <//>`;
}

/**
 * @param {{policy: Policy, name: Name, label: string, help: string, unit?: string, placeholder?: string, words?: boolean}} props
 *   `words`: words are values as well
 */
function NumberField({ policy, name, label, help, unit = "", placeholder = "", words = false }) {
  return html`<${Field} policy=${policy} name=${name} label=${label} help=${help}>
    <span class="nowrap"><input ...${common(policy, name)} type="text" inputmode=${words ? "text" : "decimal"} placeholder=${placeholder} autocomplete="off"
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
