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
    <div class="form"><${TextEntry} draft=${draft} name="name" label="Name" placeholder="laptop" required help="What it is for. It has your permissions, as they are at the time of each request." /></div>
  <//>`;
}

/** @param {{user: string}} props */
export function NoTokens({ user }) {
  return html`<section class="panel empty"><h2>No API tokens yet</h2>
    <p>A script calls the API with a token instead of a login: <code>Authorization: Token sy_…</code>. It has its user's permissions, and can be revoked separately.</p>
    ${MAY_CHANGE
      ? html`<p>Create one here, or on the server:</p><${Copyable} label="Create an API token" text=${`.venv/bin/python manage.py createtoken ${user} laptop`} />`
      : html`<p class="muted">Your account has read-only access. An administrator can create a token for it: <code>manage.py createtoken ${user} laptop</code>.</p>`}</section>`;
}
