/** State and actions of the alerts page: what fires, silences, destinations, rules. */
import { api, ApiProblem } from "../api.js";
import { Draft, listed, numeric } from "../edit/draft.js";
import { FocusRestore } from "../edit/focus_restore.js";
import { PolledResource } from "../live/polled_resource.js";
import { allPages } from "../live/polling.js";
import { ALERTS_CHANGED } from "./header_count.js";

const EVERY_MS = 2_000;
const SETTINGS_EVERY_MS = 5_000;
/** Whether rules and destinations may be seen at all: they are for all fleets. */
export const ALL_FLEETS = document.getElementById("app")?.dataset.allFleets === "yes";
const NEW_DESTINATION = { name: "", kind: "webhook", url: "", to: "", severity: "warning" };
const NEW_THRESHOLD = { name: "", fleet: "", metric: "p99_s", comparison: "above", value: "", for_s: "60", severity: "warning" };
const NEW_SILENCE = { duration_s: "3600", reason: "", wide: "subject" };

export class AlertsModel {
  /** @param {import("../edit/panel_switch.js").PanelSwitch} panels @param {() => void} changed */
  constructor(panels, changed) {
    this.panels = panels;
    this.changed = changed;
    this.poll = new PolledResource("/alerts?state=firing,pending&page_size=500", EVERY_MS, changed);
    /** @type {import("./types.js").Silence[]} */
    this.silences = [];
    /** @type {import("./types.js").Destination[]} */
    this.destinations = [];
    /** @type {import("./types.js").Rule[]} */
    this.rules = [];
    /** @type {import("./types.js").Alert[]} */
    this.resolved = [];
    this.settingsRead = false;
    /** How long ago alerts were evaluated; null: nobody knows. @type {number | null} */
    this.evaluatedAgeS = null;
    this.destination = new Draft("new-destination", NEW_DESTINATION, changed);
    this.threshold = new Draft("new-threshold", NEW_THRESHOLD, changed);
    this.silence = new Draft("silence", NEW_SILENCE, changed);
    /** Id of the alert that is being silenced. */
    this.silencing = "";
    /** Destination that is being deleted. */
    this.deleting = "";
    this.row = new Draft("alert-row", {}, changed);
    /** What a destination answered to a test: name → words. @type {Record<string, {taken: boolean | null, words: string}>} */
    this.tested = {};
    /** A new destination, with its secret. @type {import("./types.js").Destination | null} */
    this.made = null;
    this.done = "";
    /** Of the last silence that was ended: what makes it again. @type {{words: string, body: any} | null} */
    this.ended = null;
    this.focus = new FocusRestore();
  }

  start() {
    this.poll.start();
    this.readSettings();
    setInterval(() => document.hidden || this.readSettings(), SETTINGS_EVERY_MS);
    document.addEventListener(ALERTS_CHANGED, () => this.poll.again());
  }

  /** @returns {import("./types.js").Alert[]} */
  get alerts() {
    return this.poll.data?.results ?? [];
  }

  async readSettings() {
    try {
      const all = [api("GET", "/alerts/counts"), allPages("/alerts/silences"), api("GET", "/alerts?state=resolved&page_size=20"), allPages("/alerts/rules")];
      if (ALL_FLEETS) all.push(allPages("/alerts/destinations"));
      const [counts, silences, resolved, rules, destinations = []] = await Promise.all(all);
      this.evaluatedAgeS = counts.data.evaluated_age_s;
      this.silences = silences.filter((/** @type {any} */ one) => one.active);
      this.resolved = resolved.data.results;
      this.rules = rules;
      this.destinations = destinations;
      this.settingsRead = true;
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error; // shown is what was read last; the badge says how old
    }
    this.changed();
  }

  // --- silences ---

  /** @param {import("./types.js").Alert} alert */
  openSilence(alert) {
    if (this.silencing === alert.id) return this.closeSilence();
    this.focus.remember();
    this.silencing = alert.id;
    this.silence.reset();
  }

  closeSilence() {
    this.silencing = "";
    this.changed();
    this.focus.restore();
  }

  /** @param {import("./types.js").Alert} alert */
  silenceBody(alert) {
    const { rule, fleet, replica, part } = alert;
    const subject = Object.fromEntries(Object.entries({ fleet, replica, part }).filter(([, value]) => value));
    const wide = this.silence.text("wide");
    const of = wide === "fleet" ? { fleet } : wide === "rule" ? { rule, ...(fleet && { fleet }) } : { rule, ...subject };
    return { ...of, duration_s: numeric(this.silence.text("duration_s")), reason: this.silence.text("reason") };
  }

  /** @param {import("./types.js").Alert} alert */
  async makeSilence(alert) {
    if (!(await this.silence.send("POST", "/alerts/silences", this.silenceBody(alert)))) return;
    this.closeSilence();
    await this.#refresh("Silenced: nobody is told until it ends.");
  }

  /** @param {import("./types.js").Silence} silence */
  async endSilence(silence) {
    if (!(await this.row.send("DELETE", `/alerts/silences/${silence.id}`))) return;
    const left = Math.max(60, (new Date(silence.ends_at).getTime() - Date.now()) / 1000);
    const { rule, fleet, replica, part, reason } = silence;
    const of = Object.fromEntries(Object.entries({ rule, fleet, replica, part }).filter(([, value]) => value));
    this.ended = { words: `The silence “${reason}” has ended.`, body: { ...of, reason, duration_s: Math.round(left) } };
    await this.#refresh("");
  }

  async undoEnd() {
    if (!this.ended || !(await this.row.send("POST", "/alerts/silences", this.ended.body))) return;
    this.ended = null;
    await this.#refresh("Silenced again, for the time that was left.");
  }

  // --- destinations ---

  destinationBody() {
    const { destination: draft } = this;
    const where = draft.values.kind === "email" ? { to: listed(draft.text("to")) } : { url: draft.text("url") };
    const only = draft.values.severity === "critical" ? { severity: "critical" } : {};
    return { name: draft.text("name"), kind: draft.values.kind, ...where, ...only };
  }

  async makeDestination() {
    const answer = await this.destination.send("POST", "/alerts/destinations", this.destinationBody(), { taken: "name" });
    if (!answer) return;
    this.destination.reset();
    this.made = answer.data.secret ? answer.data : null;
    this.panels.close();
    await this.#refresh(`${answer.data.name} is made. Test it.`);
  }

  forgetSecret() {
    this.made = null;
    this.changed();
    this.panels.focusFirst();
  }

  /** @param {string} name */
  async test(name) {
    this.tested = { ...this.tested, [name]: { taken: null, words: "Sending a test …" } };
    this.changed();
    try {
      const { data } = await api("POST", `/alerts/destinations/${name}/test`);
      this.tested = { ...this.tested, [name]: { taken: data.taken, words: data.answer } };
    } catch (error) {
      this.tested = { ...this.tested, [name]: { taken: false, words: /** @type {Error} */ (error).message } };
    }
    await this.readSettings();
  }

  /** @param {import("./types.js").Destination} one */
  async toggleDestination(one) {
    if (!(await this.row.send("PATCH", `/alerts/destinations/${one.name}`, { enabled: !one.enabled }))) return;
    await this.#refresh(`${one.name} is ${one.enabled ? "switched off: it is told of nothing" : "told again"}.`);
  }

  /** @param {string} name */
  openDelete(name) {
    this.focus.remember();
    this.row.reset();
    this.deleting = this.deleting === name ? "" : name;
    this.changed();
  }

  closeDelete() {
    this.deleting = "";
    this.changed();
    this.focus.restore();
  }

  /** @param {string} name */
  async deleteDestination(name) {
    if (!(await this.row.send("DELETE", `/alerts/destinations/${name}`))) return;
    this.deleting = "";
    await this.#refresh(`${name} is deleted.`);
    this.panels.focusFirst();
  }

  // --- rules ---

  thresholdBody() {
    const { threshold: draft } = this;
    const typed = draft.text("value");
    const number = numeric(typed);
    return {
      name: draft.text("name"),
      metric: draft.values.metric,
      comparison: draft.values.comparison,
      value: number === null ? "" : number,
      for_s: numeric(draft.text("for_s")),
      severity: draft.values.severity,
      ...(draft.text("fleet") && { fleet: draft.text("fleet") }),
    };
  }

  async makeThreshold() {
    const answer = await this.threshold.send("POST", "/alerts/rules", this.thresholdBody(), { taken: "name" });
    if (!answer) return;
    this.threshold.reset();
    this.panels.close();
    await this.#refresh(`The rule ${answer.data.name} is evaluated from now on.`);
  }

  /** @param {import("./types.js").Rule} rule */
  async toggleRule(rule) {
    if (!(await this.row.send("PATCH", `/alerts/rules/${rule.name}`, { enabled: !rule.enabled }))) return;
    await this.#refresh(`${rule.title} is ${rule.enabled ? "switched off" : "evaluated again"}.`);
  }

  /** @param {import("./types.js").Rule} rule */
  async deleteRule(rule) {
    if (!(await this.row.send("DELETE", `/alerts/rules/${rule.name}`))) return;
    await this.#refresh(rule.built_in ? `${rule.title} is as it came again.` : `${rule.name} is deleted.`);
  }

  /** @param {string} words */
  async #refresh(words) {
    this.done = words;
    this.poll.again();
    await this.readSettings();
  }
}
