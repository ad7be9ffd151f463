/** Details of one event: each field before and after, opened in its line. */
import { html } from "../html.js";
import { originText, shown, verbText } from "./audit.js";
import { utc } from "./times.js";

/** Of a write that changed more than what the event is about, this many more are listed at once. */
const SHOWN = 20;

/** @param {{event: import("./event_log.js").Event, audit: import("./audit.js").Audit}} props */
export function Details({ event, audit }) {
  const { busy, problem, entries } = audit.of(event.write ?? "");
  const again = html` <button type="button" class="plain" onClick=${() => event.write && audit.read(event.write)}>Try again</button>`;
  if (busy) return html`<p class="muted">Reading what changed …</p>`;
  if (problem) return html`<p class="problem" role="alert">What changed could not be read: ${problem}${again}</p>`;
  if (!entries?.length) return html`<p class="muted">The audit entries of this change have been deleted: they are older than the retention time.</p>`;
  const [about, others] = parted(entries, event);
  return html`${about.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} />`)}
    ${others.length > 0 && html`<details><summary>${others.length} more in the same write</summary>
      ${others.slice(0, SHOWN).map((entry) => html`<${Entry} key=${entry.id} entry=${entry} />`)}
      ${others.length > SHOWN && html`<p class="muted">All of them: <code>GET /api/v1/audit?write=${event.write}</code></p>`}</details>`}`;
}

/** What is about the event's own replica or fleet, and the rest. @param {import("./audit.js").Entry[]} entries @param {import("./event_log.js").Event} event */
function parted(entries, { fleet, replica }) {
  const subject = replica ? `${fleet}/${replica}` : fleet;
  const about = entries.filter(({ target }) => target === subject || target.startsWith(`${subject}@`));
  if (!about.length) return [entries, []];
  return [about, entries.filter((entry) => !about.includes(entry))];
}

/** @param {{entry: import("./audit.js").Entry}} props */
function Entry({ entry: { at, actor, origin, verb, target, changes } }) {
  return html`<div class="entry-audit">
    <p><b>${actor}</b> ${verbText(verb)} <b>${target}</b> <span class="muted">${originText(origin)} · <time datetime=${at}>${utc(new Date(at))}</time> · ${verb}</span></p>
    ${changes.length > 0 && html`<table><thead><tr><th scope="col">Field</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
      <tbody>${changes.map(({ field, before, after }) => html`<tr key=${field}><th scope="row">${field}</th><td>${shown(before)}</td><td>${shown(after)}</td></tr>`)}</tbody></table>`}
  </div>`;
}
