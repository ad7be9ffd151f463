/** Empty state of the client keys: who is served without a key, and the warning before the first one. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { PATH } from "./model.js";

/** @param {{done: string, required: boolean | null}} props `done`: what became of the last key */
export function NoKeys({ done, required }) {
  return html`<section class="panel empty"><h2>${required ? "No client keys in force" : "No client keys yet"}</h2>
    ${done && html`<p role="status">${done}</p>`}
    ${required
      ? html`<p class="is-down"><b>Keys are required and there is none: no request is served.</b> Proxies answer 401 until a key is created, or until keys are no longer required.</p>`
      : html`<p>Without a key, a proxy on a local address serves everybody who can reach it. A proxy that other machines can reach answers 401 until a key exists, unless it was started with <code>--open</code>.</p>
        <p><b>As soon as one key exists, every request needs one</b>, at every proxy, within a second; that stays so when the last key is revoked. Give each client its own key, for the fleets that it uses, so that each can be revoked separately.</p>`}
    ${MAY_CHANGE
      ? html`<${Copyable} label="Create a client key" text=${curl("POST", PATH, { name: "website", fleets: null })} />`
      : html`<p class="muted">Your account has read-only access: ask an administrator for a key.</p>`}</section>`;
}

/** In the form, while the key that it makes is the first. */
export function FirstKeyWarning() {
  return html`<p class="is-unready" role="note"><b>This is the first key: clients without a key lose access.</b> Within a second every proxy answers 401
    to every request without a key, for every fleet, also from clients that are served now. Requests in flight finish. Revoking the key does not undo this: “Keys required” does.</p>`;
}
