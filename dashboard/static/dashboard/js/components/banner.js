/** Status banner: is anything wrong, where, since when, what to do. The status_banner.js files decide what it says. */
import { html } from "../html.js";
import { Shape } from "./state.js";

/**
 * `calm`: nothing to do. `notice`: worth knowing. `warn`: something is out. `bad`: requests fail.
 * @typedef {{level: "calm" | "notice" | "warn" | "bad", title: string, text: any, href?: string, action?: string}} BannerStatus
 */

const SHAPE = { calm: "ready", notice: "checking", warn: "unready", bad: "down" };

/** @param {{status: BannerStatus}} props */
export function Banner({ status: { level, title, text, href, action } }) {
  return html`<div class="banner ${level}" role="status">
    <span class="title"><${Shape} state=${SHAPE[level]} />${title}</span>
    <span class="text">${text}</span>
    ${href && html`<a class="button" href=${href}>${action ?? "Open"}</a>`}
  </div>`;
}
