/** Settings of an API token: role, labels, expiry, whether it is of a service; in a form and in words. */
import { html } from "../html.js";
import { moment, plural } from "../format.js";
import { CheckEntry, SelectEntry, TextEntry } from "../edit/fields.js";
import { labelOf } from "../edit/fleet_fields.js";
import { listed } from "../edit/draft.js";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const SOON_MS = 7 * DAY_MS;

/** @type {[string, string][]} */
const ROLES = [
  ["administer", "administer: all that you may"],
  ["operate", "operate: read, and steer traffic"],
  ["read", "read: look at everything that you see"],
];
/** @type {[string, string][]} */
const EXPIRIES = [["7", "in 7 days"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"], ["", "never"]];

/** As a form begins. @returns {import("../edit/draft.js").Values} */
export function initialSettings() {
  return { name: "", role: "administer", labels: "", expires_in_days: "90", service: false };
}

/** What a form says, without what is so anyway. @param {import("../edit/draft.js").Draft} draft */
export function settingsOf(draft) {
  const { role, expires_in_days: days, service } = draft.values;
  const labels = Object.fromEntries(listed(draft.text("labels")).map(labelOf));
  return {
    name: draft.text("name"),
    ...(role !== "administer" && { role }),
    ...(Object.keys(labels).length && { labels }),
    ...(days && { expires_in_days: Number(days) }),
    ...(service && { service }),
  };
}

/** @param {{draft: import("../edit/draft.js").Draft}} props */
export function SettingsFields({ draft }) {
  return html`<div class="form">
    <${TextEntry} draft=${draft} name="name" label="Name" placeholder="laptop" required help="What it is for." />
    <${SelectEntry} draft=${draft} name="role" label="Role" options=${ROLES} help="Not above your own. It may never do more than you may at the time of a request." />
    <${SelectEntry} draft=${draft} name="expires_in_days" label="Expires" options=${EXPIRIES} />
    <${TextEntry} draft=${draft} name="labels" label="Labels" placeholder="team=search, env=prod" help="Only fleets with all of these. Not set: all that you see." />
    <${CheckEntry} draft=${draft} name="service" label="Service" words="stays when you change your password" help="Tokens that are not of a service are deleted when your password changes. Only administrators of all fleets can set this." />
  </div>`;
}

/**
 * As the API answers them.
 * @typedef {{role: string, labels: Record<string, string>, service: boolean, expires_at: string | null}} Settings
 */

/** "operate · team=search · service". @param {Settings} one */
export function roleText({ role, labels, service }) {
  return [role, ...Object.entries(labels).map((label) => label.join("=")), ...(service ? ["service"] : [])].join(" · ");
}

/**
 * "in 29 days", "in 5 hours", "expired". @param {string | null} at @param {number} now in ms
 * @returns {{text: string, level: string}}
 */
export function expiry(at, now) {
  if (at === null) return { text: "never", level: "muted" };
  const left = Date.parse(at) - now;
  if (left <= 0) return { text: `expired ${moment(new Date(at))}`, level: "is-down" };
  const words = left < HOUR_MS ? "within the hour" : left < 2 * DAY_MS ? `in ${plural(Math.round(left / HOUR_MS), "hour")}` : `in ${plural(Math.round(left / DAY_MS), "day")}`;
  return { text: words, level: left < SOON_MS ? "is-unready" : "" };
}
