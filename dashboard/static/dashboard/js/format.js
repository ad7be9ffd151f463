/** Number formatting. Each function answers `[number, unit]`, so that the unit can be set smaller. */

/** @typedef {[string, string]} Quantity */

export const NOTHING = "–";
const shortened = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const thousands = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A round number beside an axis: no digits that say nothing. @param {number} value @param {string} unit */
export function tick(value, unit) {
  if (value === 0) return "0";
  const number = value >= 1000 ? thousands.format(value) : String(Number(value.toPrecision(3)));
  return unit ? `${number} ${unit}` : number;
}

/** Seconds → "4.2 ms", "42 ms", "1.31 s", "2.1 min". @param {number | null | undefined} seconds @returns {Quantity} */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return [NOTHING, ""];
  if (seconds < 0.00995) return [(seconds * 1000).toFixed(1), "ms"];
  if (seconds < 0.9995) return [(seconds * 1000).toFixed(0), "ms"];
  if (seconds < 99.5) return [seconds < 9.995 ? seconds.toFixed(2) : seconds.toFixed(1), "s"];
  return [(seconds / 60).toFixed(1), "min"];
}

/** Per second. @param {number} value @returns {Quantity} */
export function rate(value) {
  if (value >= 99.95) return [thousands.format(value), "/s"];
  if (value === 0) return ["0", "/s"];
  return [value.toFixed(value < 0.995 ? 2 : 1), "/s"];
}

/** @param {number} value @returns {Quantity} */
export function percent(value) {
  if (value === 0) return ["0", "%"];
  if (value < 0.01) return ["< 0.01", "%"];
  return [value < 9.995 ? value.toFixed(2) : value.toFixed(value < 99.95 ? 1 : 0), "%"];
}

/** @param {number} value @returns {Quantity} */
export function share(value) {
  return [value > 0 && value < 0.5 ? "< 1" : value.toFixed(0), "%"];
}

/** @param {number} value */
export function count(value) {
  return thousands.format(value);
}

/** "820", "8.2K", "1.5M": for columns of large numbers. @param {number} value */
export function compact(value) {
  return shortened.format(value);
}

/** @param {number} value */
export function weight(value) {
  return Number.isInteger(value) ? value.toFixed(1) : String(Number(value.toFixed(3)));
}

/** "1 replica", "3 replicas". @param {number} value @param {string} noun */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A quantity as one string. @param {Quantity} quantity */
export function text([number, unit]) {
  return unit ? `${number} ${unit}` : number;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** Time of day, with the day when it was not within the last 18 hours. @param {Date} when */
export function moment(when) {
  return Date.now() - when.getTime() < 18 * 3600 * 1000 ? clock.format(when) : day.format(when);
}

/** How old: "0.4 s", "12 s", "3 min", "2 h". @param {number} seconds */
export function age(seconds) {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${seconds.toFixed(0)} s`;
  if (seconds < 5400) return `${(seconds / 60).toFixed(0)} min`;
  return seconds < 36 * 3600 ? `${(seconds / 3600).toFixed(0)} h` : `${(seconds / 86400).toFixed(0)} d`;
}

/** What is only expected, rounded up: "a few seconds", "about 40 s", "about 3 min". @param {number} seconds */
export function about(seconds) {
  if (seconds <= 5) return "a few seconds";
  return seconds <= 55 ? `about ${Math.ceil(seconds / 5) * 5} s` : `about ${count(Math.ceil(seconds / 60))} min`;
}

/** @param {string} words */
export function capital(words) {
  return words[0].toUpperCase() + words.slice(1);
}

/** With a full stop, where it does not end already. @param {string} words */
export function sentence(words) {
  return /[.?!]$/.test(words) ? words : `${words}.`;
}
