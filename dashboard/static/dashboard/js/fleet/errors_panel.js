/** Errors panel: why requests of the fleet end with an error now. */
import { count } from "../format.js";
import { html } from "../html.js";
import { State } from "../components/state.js";

/** Not there while there are none. @param {{errors: import("../frames.js").ErrorReasonLive[]}} props */
export function ErrorsPanel({ errors }) {
  if (!errors?.length) return "";
  const all = errors.reduce((sum, one) => sum + one.requests, 0);
  return html`<section class="panel queue data" aria-labelledby="errors-title">
    <h2 id="errors-title">Errors</h2>
    <${State} state="refusing" word=${count(all)} />
    ${errors.map((one) => html`<span key=${one.reason}>${count(one.requests)}: ${one.words} <code>${one.reason}</code></span>`)}
    <span class="muted">last 10 s</span>
  </section>`;
}
