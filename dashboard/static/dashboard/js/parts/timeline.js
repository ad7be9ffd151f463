/** What happened, newest first. */
import { moment } from "../format.js";
import { html } from "../html.js";
import { State } from "./state.js";

/** @param {{events: import("../live/events.js").Events, shown?: number}} props */
export function Timeline({ events, shown = 30 }) {
  return html`<section class="panel timeline-panel" aria-labelledby="timeline-title">
    <h2 id="timeline-title">Timeline</h2>
    ${events.problem && html`<p class="problem">Events could not be read: ${events.problem}</p>`}
    <div class="scroll-y" tabindex="0" role="region" aria-labelledby="timeline-title">${body(events, shown)}</div>
  </section>`;
}

/** @param {import("../live/events.js").Events} events @param {number} shown */
function body({ list, problem }, shown) {
  if (!list) return problem ? "" : html`<p class="muted">Reading events …</p>`;
  if (!list.length) return html`<p class="muted">Nothing has happened yet. Changes of state, policy and intent will stand here.</p>`;
  return html`<ol class="timeline">${list.slice(0, shown).map((event) => html`<${Entry} key=${event.id} event=${event} />`)}</ol>`;
}

/** @param {{event: import("../live/events.js").Event}} props */
function Entry({ event }) {
  const when = new Date(event.at);
  return html`<li>
    <time datetime=${event.at} title=${when.toLocaleString()}>${moment(when)}</time>
    <span>${event.state && html`<${State} state=${event.state} />`}${subject(event)}${event.text}</span>
  </li>`;
}

/** The fleet and replica that it is about, unless the text begins with them. @param {import("../live/events.js").Event} event */
function subject({ fleet, replica, text }) {
  if (!fleet || text.startsWith(fleet) || (replica && text.startsWith(replica))) return "";
  return html`${fleet}${replica && html` / <b>${replica}</b>`}${" "}`;
}
