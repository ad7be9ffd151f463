/** Revoked client keys, read when somebody opens the list. */
import { moment } from "../format.js";
import { html } from "../html.js";

/** @param {{model: import("./model.js").KeysModel}} props */
export function Revoked({ model }) {
  const { revoked, revokedProblem } = model;
  const toggled = (/** @type {any} */ event) => event.target.open && model.readRevoked();
  return html`<details class="panel details" onToggle=${toggled}><summary>Revoked keys</summary>
    ${revokedProblem && html`<p class="problem" role="alert">They could not be read: ${revokedProblem}</p>`}
    ${!revoked && !revokedProblem && html`<p class="muted">Reading …</p>`}
    ${revoked && !revoked.length && html`<p class="muted">None has been revoked.</p>`}
    ${revoked && revoked.length > 0 && html`<ul class="changes">${revoked.map((one) => html`<li key=${one.id}>${one.name} · ${one.prefix}… · revoked ${moment(new Date(one.revoked_at ?? ""))} by ${one.revoked_by}</li>`)}</ul>`}
  </details>`;
}
