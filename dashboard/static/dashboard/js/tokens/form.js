/** Form of an API token, and the empty state. */
import { curl } from "../api.js";
import { FormPanel } from "../edit/form_panel.js";
import { html } from "../html.js";
import { Copyable } from "../components/copyable.js";
import { PATH } from "./model.js";
import { SettingsFields, settingsOf } from "./settings.js";

/** @param {{model: import("./model.js").TokensModel}} props */
export function TokenForm({ model }) {
  const { draft, panels } = model;
  const body = settingsOf(draft);
  return html`<${FormPanel} title="New API token" draft=${draft} action="Create" submit=${() => model.create()} close=${() => panels.close()}
    command=${curl("POST", PATH, { ...body, name: body.name || "laptop" })}>
    <${SettingsFields} draft=${draft} />
  <//>`;
}

/** @param {{user: string}} props */
export function NoTokens({ user }) {
  return html`<section class="panel empty"><h2>No API tokens yet</h2>
    <p>A script calls the API with a token instead of a login: <code>Authorization: Token sy_…</code>. It has its user's permissions or fewer, may expire, and can be revoked separately.</p>
    <p>Create one here, or on the server:</p><${Copyable} label="Create an API token" text=${`.venv/bin/python manage.py createtoken ${user} laptop`} /></section>`;
}
