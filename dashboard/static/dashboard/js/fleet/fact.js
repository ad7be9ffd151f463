/** One setting or figure of a fleet and its name, in a list of them. */
import { html } from "../html.js";

/** @param {{name: string, children?: any}} props */
export function Fact({ name, children }) {
  return html`<div class="field"><dt>${name}</dt><dd>${children}</dd></div>`;
}
