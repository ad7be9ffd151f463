/** Table of open alerts: those that fire first, since when, why, and the silence of each. */
import { curl } from "../api.js";
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { age, moment, plural } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { matches } from "../components/search.js";
import { State } from "../components/state.js";

const COLUMNS = 6;
/** @type {[string, string][]} */
const DURATIONS = [["1800", "30 minutes"], ["3600", "1 hour"], ["14400", "4 hours"], ["43200", "12 hours"], ["86400", "1 day"], ["604800", "7 days"]];

/** @typedef {import("./types.js").Alert} Alert */

/** @param {{alert: Alert}} props */
export function AlertState({ alert: { state, severity, silence } }) {
  if (state === "resolved") return html`<${State} state="resolved" />`;
  if (state === "pending") return html`<${State} state="checking" word="pending" />`;
  if (silence) return html`<${State} state="maintenance" word=${`${severity}, silenced`} />`;
  return html`<${State} state=${severity === "critical" ? "down" : "unready"} word=${severity} />`;
}

/** What it is about, as a link. @param {{alert: Alert}} props */
export function AlertSubject({ alert: { fleet, replica, part } }) {
  if (!fleet) return html`<a class="name" href="/system">${part ?? "all fleets"}</a>`;
  const page = `/fleets/${fleet}`;
  if (!replica) return html`<a class="name" href=${page}>${fleet}</a>`;
  return html`<a class="name" href=${`${page}?search=${encodeURIComponent(replica)}`}>${fleet} / ${replica}</a>`;
}

/** @param {{at: string}} props */
export function Since({ at }) {
  const when = new Date(at);
  return html`<time datetime=${at} title=${when.toLocaleString()}>${moment(when)}</time><span class="sub">${age(Math.max(0, (Date.now() - when.getTime()) / 1000))} ago</span>`;
}

/** @param {{model: import("./model.js").AlertsModel, search: string}} props */
export function AlertTable({ model, search }) {
  const list = model.alerts;
  const found = list.filter((one) => matches(search, [one.title, one.rule, one.severity, one.state, one.fleet ?? "", one.replica ?? "", one.part ?? "", one.why]));
  if (!list.length) return null;
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="Alerts">
      <table class="cards alerts">
        <thead><tr><th scope="col">State</th><th scope="col">What</th><th scope="col">Where</th><th scope="col">Why</th><th scope="col">Since</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>${found.map((one) => html`<${Row} key=${one.id} alert=${one} model=${model} />`)}
          ${!found.length && html`<tr><td colspan=${COLUMNS} class="muted full">No alert matches “${search}”.</td></tr>`}</tbody>
      </table>
    </div>
    <p class="table-foot">${plural(list.length, "open alert")}. A pending one fires once its condition has held for long enough.</p>
  </section>`;
}

/** @param {{alert: Alert, model: import("./model.js").AlertsModel}} props */
function Row({ alert, model }) {
  const open = model.silencing === alert.id;
  return html`<tr data-alert=${alert.rule}>
      <td class="half"><${AlertState} alert=${alert} /></td>
      <td class="half"><b>${alert.title}</b></td>
      <td class="half wrap" data-label="Where"><${AlertSubject} alert=${alert} /></td>
      <td class="wrap full why">${alert.why}${alert.silence && html`<span class="sub">silenced until ${moment(new Date(alert.silence.ends_at))} by ${alert.silence.created_by}: ${alert.silence.reason}</span>`}</td>
      <td class="half" data-label="Since"><${Since} at=${alert.since} /></td>
      <td class="actions full">${MAY_OPERATE && !alert.silence && html`<button type="button" aria-expanded=${open} aria-label=${`Silence ${alert.title}`} onClick=${() => model.openSilence(alert)}>Silence …</button>`}</td>
    </tr>
    ${open && html`<tr class="note"><td class="full" colspan=${COLUMNS}><${SilenceForm} alert=${alert} model=${model} /></td></tr>`}`;
}

/** @param {{alert: Alert, model: import("./model.js").AlertsModel}} props */
function SilenceForm({ alert, model }) {
  const { silence: draft } = model;
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("input")?.focus(), []);
  const submit = (/** @type {SubmitEvent} */ event) => (event.preventDefault(), draft.busy || model.makeSilence(alert));
  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && model.closeSilence();
  /** @type {[string, string][]} */
  const widths = [["subject", "this alert only"], ["rule", alert.fleet ? `all “${alert.title}” of ${alert.fleet}` : `all “${alert.title}”`]];
  if (alert.fleet) widths.push(["fleet", `all alerts of ${alert.fleet}`]);
  return html`<form ref=${form} class="edit in-row" aria-label=${`Silence ${alert.title}`} noValidate onSubmit=${submit} onKeyDown=${leave}>
    <div class="form">
      <${TextEntry} draft=${draft} name="reason" label="Why" placeholder="rack move until 14:00" required help="For whoever wonders. Nobody is told of the alert meanwhile; that it is over is told if its begin was." />
      <${SelectEntry} draft=${draft} name="duration_s" label="For how long" options=${DURATIONS} />
      <${SelectEntry} draft=${draft} name="wide" label="What" options=${widths} />
    </div>
    <div class="row"><button class="primary" disabled=${draft.busy} aria-busy=${draft.busy}>Silence</button><button type="button" onClick=${() => model.closeSilence()}>Cancel</button></div>
    ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    <${Copyable} label="The same as a command" text=${curl("POST", "/alerts/silences", model.silenceBody(alert))} />
  </form>`;
}
