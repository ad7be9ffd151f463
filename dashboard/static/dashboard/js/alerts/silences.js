/** Silences in force, each with its end and who made it; ending one can be undone. */
import { moment } from "../format.js";
import { html } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";

/** @param {import("./types.js").Silence} one */
function covers({ rule, fleet, replica, part }) {
  const where = [fleet, replica].filter(Boolean).join(" / ") || part;
  return [rule ?? "all alerts", where].filter(Boolean).join(" of ");
}

/** @param {{model: import("./model.js").AlertsModel}} props */
export function Silences({ model }) {
  const { silences, ended, row } = model;
  if (!silences.length && !ended) return null;
  return html`<section class="panel table-panel data" aria-labelledby="silences-title">
    <h2 id="silences-title" class="table-title">Silences</h2>
    ${ended && html`<p class="removed" role="status">${ended.words} <button type="button" disabled=${row.busy} onClick=${() => model.undoEnd()}>Undo</button></p>`}
    ${silences.length > 0 && html`<div class="scroll"><table class="cards">
      <thead><tr><th scope="col">What</th><th scope="col">Why</th><th scope="col">Until</th><th scope="col">By</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
      <tbody>${silences.map((one) => html`<tr key=${one.id} data-silence=${one.id}>
        <td class="wrap"><b>${covers(one)}</b></td><td class="wrap">${one.reason}</td>
        <td data-label="Until"><time datetime=${one.ends_at}>${new Date(one.ends_at).toLocaleString()}</time></td>
        <td data-label="By">${one.created_by}</td>
        <td class="actions">${MAY_OPERATE && html`<button type="button" disabled=${row.busy} aria-label=${`End now the silence of ${covers(one)}`} onClick=${() => model.endSilence(one)}>End now</button>`}</td>
      </tr>`)}</tbody></table></div>`}
  </section>`;
}

/** Alerts that are over, the newest first. @param {{model: import("./model.js").AlertsModel}} props */
export function Resolved({ model }) {
  if (!model.resolved.length) return null;
  return html`<details class="panel revisions"><summary>Resolved lately</summary><ol>
    ${model.resolved.map((one) => html`<li key=${one.id}><span><b>${one.title}</b>, ${[one.fleet, one.replica].filter(Boolean).join(" / ") || one.part}: ${one.why}</span>
      <span class="muted">${moment(new Date(one.since))} to ${moment(new Date(one.resolved_at ?? one.since))}</span></li>`)}
  </ol></details>`;
}
