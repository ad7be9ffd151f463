/** Destinations: where notifications go, whether they arrive, and the test of each. */
import { curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { moment, plural } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE, MAY_OPERATE } from "../may_change.js";
import { SecretReveal } from "../components/secret_reveal.js";
import { State } from "../components/state.js";
import { ALL_FLEETS } from "./model.js";

const PATH = "/alerts/destinations";
/** @type {[string, string][]} */
const KINDS = [["webhook", "Webhook, signed"], ["slack", "Slack-compatible webhook"], ["alertmanager", "Alertmanager"], ["email", "E-mail"]];
const URL_HELP = /** @type {Record<string, string>} */ ({
  webhook: "Gets JSON, signed as Standard Webhooks are.",
  slack: "The incoming webhook of Slack, Mattermost and others.",
  alertmanager: "Its base URL; alerts go to /api/v2/alerts there.",
});

/** @typedef {import("./types.js").Destination} Destination */

/** @param {{model: import("./model.js").AlertsModel}} props */
export function DestinationForm({ model }) {
  const { destination: draft, panels } = model;
  const kind = String(draft.values.kind);
  return html`<${FormPanel} title="New destination" draft=${draft} action="Create" submit=${() => model.makeDestination()} close=${() => panels.close()}
    command=${curl("POST", PATH, model.destinationBody())}>
    <div class="form">
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="pager" required />
      <${SelectEntry} draft=${draft} name="kind" label="Kind" options=${KINDS} />
      ${kind === "email"
        ? html`<${TextEntry} draft=${draft} name="to" label="To" placeholder="anna@example.com, night@example.com" required help="Sent by the mail server in SWITCHYARD_SMTP_URL." />`
        : html`<${TextEntry} draft=${draft} name="url" label="URL" placeholder="URL of the receiver" inputmode="url" required help=${`${URL_HELP[kind]} Never shown again whole. env:NAME or file:/whole/path keeps it out of the database.`} />`}
      <${SelectEntry} draft=${draft} name="severity" label="Is told of" options=${[["warning", "all alerts"], ["critical", "critical alerts only"]]} />
    </div>
  <//>`;
}

/** @param {{model: import("./model.js").AlertsModel}} props */
export function NewSecret({ model }) {
  const { made } = model;
  if (!made) return null;
  return html`<${SecretReveal} title=${`${made.name} is made`} what="signing secret" secret=${made.secret ?? ""} done=${() => model.forgetSecret()}
    kept="It is derived from SWITCHYARD_SECRET_KEY and stored nowhere." notes="The receiver checks webhook-signature with it." commands=${[]} />`;
}

/** @param {{model: import("./model.js").AlertsModel}} props */
export function Destinations({ model }) {
  const { destinations } = model;
  if (!ALL_FLEETS || !model.settingsRead) return null;
  return html`<section class="panel table-panel data" aria-labelledby="destinations-title">
    <h2 id="destinations-title" class="table-title">Destinations</h2>
    ${destinations.length === 0
      ? html`<p class="table-foot"><b>Nobody is told of alerts.</b> ${MAY_CHANGE ? "Make a destination: a webhook, a chat, Alertmanager or e-mail." : "An administrator can make a destination."}</p>`
      : html`<div class="scroll"><table class="cards">
        <thead><tr><th scope="col">Destination</th><th scope="col">State</th><th scope="col">Last answer</th><th scope="col">Is told of</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>${destinations.map((one) => html`<${Row} key=${one.name} one=${one} model=${model} />`)}</tbody></table></div>`}
  </section>`;
}

/** @param {{one: Destination, model: import("./model.js").AlertsModel}} props */
function Row({ one, model }) {
  const { name, enabled, url, to, severity, fleets } = one;
  const tested = model.tested[name];
  const { row } = model;
  return html`<tr data-destination=${name}>
      <td class="half wrap"><b>${name}</b><span class="sub">${one.kind} · ${url ?? to.join(", ")}</span></td>
      <td class="half"><${Delivery} one=${one} /></td>
      <td class="wrap full" data-label="Last answer">${tested
        ? html`<span role="status">${tested.taken !== null && html`<${State} state=${tested.taken ? "ready" : "down"} word=${tested.taken ? "test taken" : "test failed"} /> `}${tested.words}</span>`
        : html`${one.last_answer || html`<span class="muted">nothing was sent yet</span>`}${one.last_sent_at && html`<span class="sub">${moment(new Date(one.last_sent_at))}</span>`}`}</td>
      <td class="half wrap" data-label="Is told of">${severity === "critical" ? "critical alerts" : "all alerts"}${fleets.length > 0 && html`<span class="sub">of ${fleets.join(", ")}</span>`}</td>
      <td class="actions full">${MAY_OPERATE && html`<button type="button" aria-label=${`Test ${name}`} disabled=${tested?.taken === null} onClick=${() => model.test(name)}>Test</button>`}
        ${MAY_CHANGE && html`${" "}<button type="button" aria-label=${`Switch ${enabled ? "off" : "on"} ${name}`} disabled=${row.busy} onClick=${() => model.toggleDestination(one)}>${enabled ? "Switch off" : "Switch on"}</button>
        ${" "}<button type="button" aria-label=${`Delete ${name}`} aria-expanded=${model.deleting === name} onClick=${() => model.openDelete(name)}>Delete …</button>`}</td>
    </tr>
    ${model.deleting === name && html`<tr class="note"><td class="full" colspan="5">
      <${Confirm} action=${`Delete ${name}`} busy=${row.busy} problem=${row.problem} confirm=${() => model.deleteDestination(name)} close=${() => model.closeDelete()} command=${curl("DELETE", `${PATH}/${name}`)}>
        <p>Nothing is sent there any more${one.waiting ? html`, and <b>${plural(one.waiting, "notification")}</b> that it has not taken ${one.waiting === 1 ? "is" : "are"} lost` : ""}. Its URL and its secret cannot be shown again: to pause it, switch it off instead.</p>
      <//></td></tr>`}`;
}

/** @param {{one: Destination}} props */
function Delivery({ one: { enabled, failing_since, last_taken, waiting } }) {
  if (!enabled) return html`<${State} state="maintenance" word="off" />`;
  const left = waiting ? html`<span class="sub">${plural(waiting, "notification")} waiting</span>` : "";
  if (failing_since) return html`<${State} state="down" word="failing" /><span class="sub">since ${moment(new Date(failing_since))}</span>${left}`;
  if (last_taken === null) return html`<${State} state="checking" word="not used yet" /><span class="sub">test it</span>${left}`;
  return html`<${State} state=${last_taken ? "ready" : "unready"} word=${last_taken ? "well" : "test failed"} />${left}`;
}
