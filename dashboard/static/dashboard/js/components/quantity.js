/** A number with its unit set smaller. */
import { html } from "../html.js";

/** @param {{of: import("../format.js").Quantity}} props */
export function Quantity({ of: [number, unit] }) {
  return html`${number}${unit && html`<span class="unit"> ${unit}</span>`}`;
}
