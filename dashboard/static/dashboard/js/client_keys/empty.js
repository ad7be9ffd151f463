/** Empty state of the client keys: who is served without a key, and the warning before the first one. */
import { curl } from "../api.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { PATH } from "./model.js";

/** @param {{done: string}} props `done`: what became of the last key */
export function NoKeys({ done }) {
  return html`<section class="panel empty"><h2>No client keys yet</h2>
    ${done && html`<p role="status">${done}</p>`}
    <p>A proxy on an address of its own machine serves whoever reaches it. One that other machines reach answers 401 until a key exists, unless it was started with <code>--open</code>.</p>
    <p><b>As soon as one key exists, every request needs one</b>: within a second, at every proxy. Give each client its own, for the fleets that it uses, so that one can be revoked alone.</p>
    ${MAY_CHANGE
      ? html`<${Copyable} label="Make a client key" text=${curl("POST", PATH, { name: "website", fleets: null })} />`
      : html`<p class="muted">Your account may look, not change: ask an administrator for a key.</p>`}</section>`;
}

/** In the form, while the key that it makes is the first. */
export function FirstKeyWarning() {
  return html`<p class="is-unready" role="note"><b>It is the first key: it closes the proxy to all who have none.</b> Within a second of its creation every proxy answers 401
    to each request without a key, to every fleet and from every client, those that are served now too. Requests in flight finish. Revoking the key undoes it.</p>`;
}
