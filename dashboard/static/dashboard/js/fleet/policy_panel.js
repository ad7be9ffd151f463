/** Policy panel: strategy, its parameters, concurrency, queue, sites, first tokens and failures. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { Fact } from "./fact.js";
import { ParameterField } from "./parameter_field.js";
import { Predicted } from "./predicted.js";
import { FORM } from "./policy.js";
import { PolicySettingsFields } from "./policy_settings_fields.js";
import { SecondAttempts } from "./second_attempts.js";
import { errorProps, FieldError } from "./field_error.js";

/** @param {{policy: import("./policy.js").Policy, frame: import("../frames.js").FleetFrame | null}} props */
export function PolicyPanel({ policy, frame }) {
  const heading = html`<h2 id="policy-title">Policy${policy.revision > 0 && ` · revision ${policy.revision}`}</h2>`;
  if (!policy.stored) {
    const state = policy.problem ? html`<p class="problem">The policy could not be read: ${policy.problem}</p>` : html`<p class="muted">Reading the policy …</p>`;
    return html`<section class="panel" aria-labelledby="policy-title">${heading}${state}</section>`;
  }
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    policy.apply();
  };
  return html`<section class="panel" aria-labelledby="policy-title">
    ${heading}
    <form class="stack" id=${FORM} noValidate onSubmit=${submit}>
      <div class="fields">
        <div class="parameter"><div class="field"><label for="strategy">Strategy</label>
          <select id="strategy" ...${errorProps(policy, "strategy")} value=${policy.shown()?.name} disabled=${policy.busy || !MAY_OPERATE}
            onChange=${(/** @type {any} */ event) => policy.choose(event.target.value)}>
            ${policy.strategies.map((one) => html`<option value=${one.name} selected=${one.name === policy.shown()?.name}>${one.name.replaceAll("_", " ")}</option>`)}
          </select></div>
          <p class="help" id="strategy-help">${policy.shown()?.sentence}</p><${FieldError} policy=${policy} id="strategy" /></div>
        ${policy.shown()?.parameters.map((one) => html`<${ParameterField} key=${`${policy.shown()?.name}.${one.name}`} parameter=${one} policy=${policy} />`)}
      </div>
      <${PolicySettingsFields} policy=${policy} />
      <div class="row">
        <span class="result" role="status">${outcome(policy)}</span>
        ${policy.dirty() && html`<button type="button" disabled=${policy.busy} onClick=${() => policy.reset()}>Discard</button>`}
        <button class="primary" disabled=${policy.busy || !policy.dirty()} aria-busy=${policy.busy}>Apply</button>
      </div>
    </form>
    <${Copyable} label="The same as a command" text=${curl("PATCH", policy.path, policy.body())} />
    <${OtherSettings} policy=${policy} live=${frame?.serves ?? null} predictions=${frame?.predictions ?? null} seconds=${frame?.second_attempts ?? null} />
  </section>`;
}

/** @param {import("./policy.js").Policy} policy */
function outcome(policy) {
  if (policy.busy) return html`<span class="muted">Applying …</span>`;
  if (policy.problem) return html`<span class="problem">${policy.problem}</span>`;
  if (!MAY_OPERATE) return html`<span class="muted">Your role here is read; changes need operate.</span>`;
  if (!policy.result) return policy.dirty() && html`<span class="muted">Not applied yet</span>`;
  return html`<span class=${policy.result.everywhere ? "applied" : "is-unready"}>${policy.result.text}</span>${policy.previous > 0 &&
    html` <button type="button" class="plain" onClick=${() => policy.goBack(policy.previous)}>roll back to revision ${policy.previous}</button>`}`;
}

/** @type {Record<string, string>} */
const SERVES = { auto: "in slots or batches, as learned", slots: "in slots, as many as their limit", batch: "in batches" };

/**
 * The rest of the policy, to be read; changed through the API.
 * @param {{policy: import("./policy.js").Policy, live: import("../frames.js").ServesLive | null, predictions: import("../frames.js").PredictionsLive | null, seconds: import("../frames.js").SecondAttemptsLive | null}} props
 */
function OtherSettings({ policy, live, predictions, seconds }) {
  const { slow_start_s, ejection, timeouts, limits, retries, half_close, first_token_limit_s, plain_limit_factor, serves } = policy.stored;
  return html`<dl class="fields">
    <${Fact} name="Replicas serve"><div data-cell="serves">${live?.words ?? SERVES[serves]}<p class="help">${live?.how_known ?? "not learned yet"}</p></div></${Fact}>
    <${Predicted} predictions=${predictions} />
    <${Fact} name="Ejected after">${ejection.consecutive_failures} failures, for ${ejection.base_s} s</${Fact}>
    <${Fact} name="Slow start">${slow_start_s} s</${Fact}>
    <${Fact} name="Retried statuses">${retries.statuses.join(", ") || "none"}</${Fact}>
    <${Fact} name="Total timeout">${timeouts.total_s} s</${Fact}>
    <${Fact} name="Half-closed clients">${half_close === "allow" ? "still get their response" : "count as disconnected"}</${Fact}>
    <${SecondAttempts} seconds=${seconds} limit=${first_token_limit_s} off=${first_token_limit_s === "off" && plain_limit_factor === null} />
    <${Fact} name="Max body size">${(limits.max_body_bytes / 2 ** 20).toLocaleString("en", { maximumSignificantDigits: 3 })} MiB</${Fact}>
  </dl>
  <details class="details"><summary>Change these from a terminal</summary>
    <${Copyable} label="Example" text=${curl("PATCH", policy.path, { slow_start_s, retries: { statuses: retries.statuses } })} />
    <p class="help">The <a href="/api/v1/docs">API reference</a> lists every field of a policy; the response says what changed.</p></details>`;
}
