/** API tokens page: one's own, and for staff everybody's. */
import { API } from "../api.js";
import { html } from "../html.js";
import { root } from "../live/rendering.js";
import { ListPage } from "../live/list_page.js";
import { SecretReveal } from "../components/secret_reveal.js";
import { NoTokens, TokenForm } from "./form.js";
import { PATH, TokensModel } from "./model.js";
import { expiry, roleText } from "./settings.js";
import { TokenTable } from "./table.js";

const user = root.dataset.user ?? "";
const page = new ListPage(PATH, "API tokens");
const model = new TokensModel(page.polling, page.panels, page.draw);

/** @param {import("./model.js").Made} made */
function notes(made) {
  const { text } = expiry(made.expires_at, Date.now());
  return `Role: ${roleText(made)}. ${text === "never" ? "It does not expire" : `It expires ${text}`}.${made.service ? "" : " A new password ends it."}`;
}

/** @param {{made: import("./model.js").Made}} props */
function Made({ made }) {
  const look = `export TOKEN=${made.token}\ncurl -s -H "Authorization: Token $TOKEN" ${location.origin}${API}/fleets`;
  return html`<${SecretReveal} title=${`API token ${made.name} is created`} what="API token" secret=${made.token}
    notes=${notes(made)} commands=${[["List all fleets with it. The commands on the other pages then work as they are:", look]]} done=${() => model.forget()} />`;
}

page.start({
  above: () => model.made && html`<${Made} key=${model.made.token} made=${model.made} />`,
  form: () => html`<${TokenForm} model=${model} />`,
  table: (list) => html`<${TokenTable} model=${model} list=${list} search=${page.search} user=${user} />`,
  empty: () => html`<${NoTokens} user=${user} />`,
});
