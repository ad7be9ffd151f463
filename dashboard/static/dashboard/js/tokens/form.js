/** Form of an API token, and the empty state. */
import { curl } from "../api.js";
import { TextEntry } from "../edit/fields.js";
import { FormPanel } from "../edit/form_panel.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { PATH } from "./model.js";

/** @param {{model: import("./model.js").TokensModel}} props */
export function TokenForm({ model }) {
  const { draft, panels } = model;
  return html`<${FormPanel} title="New API token" draft=${draft} action="Create" submit=${() => model.create()} close=${() => panels.close()}
    command=${curl("POST", PATH, { name: draft.text("name") || "laptop" })}>
    <div class="form"><${TextEntry} draft=${draft} name="name" label="Name" placeholder="laptop" required help="What it is for. It carries your rights, as they are at each request." /></div>
  <//>`;
}

/** @param {{user: string}} props */
export function NoTokens({ user }) {
  return html`<section class="panel empty"><h2>No API tokens yet</h2>
    <p>A script asks the API with a token in the place of a login: <code>Authorization: Token sy_…</code>. It may do what its user may, and can be revoked alone.</p>
    ${MAY_CHANGE
      ? html`<p>Make one here, or on the server:</p><${Copyable} label="Make an API token" text=${`.venv/bin/python manage.py createtoken ${user} laptop`} />`
      : html`<p class="muted">Your account may look, not change. An administrator can make a token for it: <code>manage.py createtoken ${user} laptop</code>.</p>`}</section>`;
}
