/** Times of the event list: the reader's time zone, and UTC beside it. */

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "shortOffset" });

/** @param {Date} when */
export function timeOfDay(when) {
  return clock.format(when);
}

/** "Today · Saturday, 21 November 2026". @param {Date} when @param {Date} now */
export function dayOf(when, now) {
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
  const near = when.toDateString() === now.toDateString() ? "Today · " : when.toDateString() === yesterday.toDateString() ? "Yesterday · " : "";
  return near + day.format(when);
}

/** "2026-11-21 05:07:15.123 UTC". @param {Date} when */
export function utc(when) {
  return when.toISOString().replace("T", " ").replace("Z", " UTC");
}

/** "Europe/Berlin, GMT+1". */
export function zoneText() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const offset = zone.formatToParts(new Date()).find((part) => part.type === "timeZoneName")?.value ?? "";
  return name === "UTC" ? "UTC" : `${name}, ${offset}`;
}

/** For a datetime-local field, whose value has no zone. @param {string} iso */
export function toField(iso) {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) return "";
  return new Date(when.getTime() - when.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** And back, as an address holds it. @param {string} value */
export function fromField(value) {
  const when = new Date(value);
  return Number.isNaN(when.getTime()) ? "" : when.toISOString().replace(".000Z", "Z");
}

/**
 * Events in order → days in order, each of the reader's zone.
 * @template {{at: string}} T @param {T[]} list @returns {{day: string, when: Date, list: T[]}[]}
 */
export function byDay(list) {
  /** @type {{day: string, when: Date, list: T[]}[]} */
  const days = [];
  for (const event of list) {
    const when = new Date(event.at);
    const name = when.toDateString();
    if (days.at(-1)?.day !== name) days.push({ day: name, when, list: [] });
    days.at(-1)?.list.push(event);
  }
  return days;
}
