/** Table of API tokens: prefix, user, last use, and the actions. */
import { curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { moment, plural } from "../format.js";
import { html } from "../html.js";
import { matches } from "../components/search.js";
import { PATH } from "./model.js";
import { expiry, roleText } from "./settings.js";

const COLUMNS = 8;
/** The server notes a use at most once a minute. */
const NOW_MS = 120_000;

/** @typedef {import("./model.js").Token} Token */

/** @param {{model: import("./model.js").TokensModel, list: Token[], search: string, user: string}} props */
export function TokenTable({ model, list, search, user }) {
  const found = list.filter((one) => matches(search, [one.name, one.prefix, one.user, roleText(one)]));
  return html`<section class="panel table-panel data">
    <div class="scroll" tabindex="0" role="region" aria-label="API tokens">
      <table class="cards">
        <thead><tr><th scope="col">Name</th><th scope="col">Token</th><th scope="col">User</th><th scope="col">Role</th><th scope="col">Created</th><th scope="col">Last used</th><th scope="col">Expires</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>
          ${found.map((one) => html`<${Row} key=${one.id} one=${one} model=${model} user=${user} />`)}
          ${!found.length && html`<tr><td colspan=${COLUMNS} class="muted full">No API token matches “${search}”.</td></tr>`}
        </tbody>
      </table>
    </div>
    <p class="table-foot" role="status">${model.done || `${plural(list.length, "API token")}. Each has its role, and never more than its user's permissions. A new password ends its user's tokens, except those of services.`}</p>
  </section>`;
}

/** @param {{one: Token, model: import("./model.js").TokensModel, user: string}} props */
function Row({ one, model, user }) {
  const open = model.revoking === one.id;
  return html`<tr data-token=${one.name}>
      <td class="half"><b>${one.name}</b></td>
      <td class="half mono" data-label="Token">${one.prefix}…</td>
      <td class="half" data-label="User">${one.user}${one.user === user && html` <span class="unit">you</span>`}</td>
      <td class="half wrap" data-label="Role">${roleText(one)}</td>
      <td class="half" data-label="Created"><${When} at=${one.created_at} /></td>
      <td class="half" data-label="Last used">${one.last_used_at ? html`<${When} at=${one.last_used_at} recent />` : html`<span class="muted">never</span>`}</td>
      <td class="half" data-label="Expires"><${Expiry} at=${one.expires_at} /></td>
      <td class="actions full"><button type="button" aria-label=${`Revoke ${one.name} of ${one.user}`} aria-expanded=${open} onClick=${() => model.open(one)}>Revoke …</button></td>
    </tr>
    ${open && html`<tr class="note"><td class="full" colspan=${COLUMNS}><${Revocation} one=${one} model=${model} /></td></tr>`}`;
}

/** `recent`: within the last two minutes it is "just now". @param {{at: string, recent?: boolean}} props */
function When({ at, recent = false }) {
  const when = new Date(at);
  const words = recent && Date.now() - when.getTime() < NOW_MS ? "just now" : moment(when);
  return html`<time datetime=${at} title=${when.toLocaleString()}>${words}</time>`;
}

/** @param {{at: string | null}} props */
function Expiry({ at }) {
  const { text, level } = expiry(at, Date.now());
  return at === null ? html`<span class=${level}>${text}</span>` : html`<time class=${level} datetime=${at} title=${new Date(at).toLocaleString()}>${text}</time>`;
}

/** @param {{one: Token, model: import("./model.js").TokensModel}} props */
function Revocation({ one, model }) {
  const { busy, problem } = model.row;
  const used = one.last_used_at ? `It was last used ${moment(new Date(one.last_used_at))}.` : "It has never been used.";
  return html`<${Confirm} action=${`Revoke ${one.name}`} of=${` of ${one.user}`} busy=${busy} problem=${problem} confirm=${() => model.revoke(one)} close=${() => model.close()} command=${curl("DELETE", `${PATH}/${one.id}`)}>
    <p>From now on the API answers 401 to <code>${one.prefix}…</code>. Whatever uses the token <b>${one.name}</b> of ${one.user} stops working until it has another one. ${used} This cannot be undone.</p>
  <//>`;
}
