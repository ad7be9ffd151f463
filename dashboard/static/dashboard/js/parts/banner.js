/** One sentence: is anything wrong, where, since when, what to do. What it says is decided in verdict.js files. */
import { html } from "../html.js";
import { Shape } from "./state.js";

/**
 * `calm`: nothing to do. `notice`: worth knowing. `warn`: something is out. `bad`: requests fail.
 * @typedef {{level: "calm" | "notice" | "warn" | "bad", title: string, text: any, href?: string, action?: string}} Verdict
 */

const SHAPE = { calm: "ready", notice: "checking", warn: "unready", bad: "down" };

/** @param {{verdict: Verdict}} props */
export function Banner({ verdict: { level, title, text, href, action } }) {
  return html`<div class="banner ${level}" role="status">
    <span class="title"><${Shape} state=${SHAPE[level]} />${title}</span>
    <span class="text">${text}</span>
    ${href && html`<a class="button" href=${href}>${action ?? "Open"}</a>`}
  </div>`;
}
