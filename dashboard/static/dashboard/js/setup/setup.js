/** State of the first steps: from an empty install to the first response. */
import { api, curl } from "../api.js";
import { Draft } from "../edit/draft.js";
import { suggestedName } from "../edit/suggested_name.js";
import { allPages } from "../live/polling.js";
import { TrialProbe } from "../edit/trial_probe.js";

const KEPT_AS = "switchyard-first-steps";
const LOOK_MS = 1_000;
const TRY_AGAIN_MS = 4_000;
const EXAMPLE = { name: "my-model", url: "http://10.0.0.1:8000" };
const EMPTY = { url: "", name: "", protocol: "openai", served_model: "", replica: "", ca: "", server_name: "" };
/** Probe presets of servers that speak one protocol. @type {Record<string, string>} */
const SPOKEN = { "kserve-v2": "open-inference", ollama: "openai", "llama.cpp": "openai" };

/** `/replicas/0/url` → url, `/replicas/0/name` → replica. @param {string} pointer */
function fieldOf(pointer) {
  const [, first = "", second = "", third = ""] = pointer.split("/");
  if (first === "replicas") return third === "name" ? "replica" : third;
  if (first === "tls") return second || "ca";
  return first;
}

export class Setup {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.draft = new Draft("setup", EMPTY, changed, fieldOf);
    this.trial = new TrialProbe(this.draft, () => this.#how());
    /** A probe that was taken because it fits. @type {Record<string, any> | null} */
    this.probe = null;
    this.suggestion = "";
    /** Shown once; "" before it is made. */
    this.token = "";
    this.tokenProblem = "";
    /** From the first look at an empty install until its reader is done with it; reloading keeps it. */
    this.begun = sessionStorage.getItem(KEPT_AS) !== null;
    /** The fleet that was made, once a frame has it. */
    this.fleet = sessionStorage.getItem(KEPT_AS) ?? "";
    /** Its replicas as the API answers them. @type {any[]} */
    this.replicas = [];
    this.hasAnswered = false;
    this.lookedAt = 0;
    this.triedAt = 0;
    /** What the trial says of the first replica that is not ready. @type {import("../edit/trial_probe.js").Found | null} */
    this.seen = null;
  }

  #how() {
    const name = this.draft.text("served_model") || this.draft.text("name");
    return { protocol: this.draft.text("protocol"), ...(name && { model: name }), ...(this.probe && { probe: this.probe }), ...this.#tls() };
  }

  /** Whether the URL is one whose certificate is verified. */
  isSecure() {
    return /^https:/i.test(this.draft.text("url"));
  }

  #tls() {
    const said = this.isSecure() ? ["ca", "server_name"].filter((name) => this.draft.text(name)) : [];
    return said.length ? { tls: Object.fromEntries(said.map((name) => [name, this.draft.text(name)])) } : {};
  }

  /** Whether the page shows the first steps. @param {import("../frames.js").OverviewFrame} frame */
  shown({ fleets }) {
    if (!fleets.length) {
      this.#keep("");
      return true;
    }
    if (!this.begun) return false;
    if (!fleets.some((one) => one.name === this.fleet)) this.#keep(fleets[0].name);
    return true;
  }

  /** @param {string} fleet */
  #keep(fleet) {
    if (this.begun && this.fleet === fleet) return;
    this.begun = true;
    this.fleet = fleet;
    this.replicas = [];
    this.hasAnswered = false;
    sessionStorage.setItem(KEPT_AS, fleet);
  }

  finish() {
    sessionStorage.removeItem(KEPT_AS);
    this.begun = false;
    this.changed();
  }

  urlTyped() {
    const { draft } = this;
    if (draft.text("replica") !== this.suggestion) return;
    this.suggestion = suggestedName(draft.text("url"), []);
    draft.set("replica", this.suggestion);
  }

  /** The protocol that goes with a probe, where it is not the chosen one; else "". @param {Record<string, any>} probe */
  otherProtocol({ preset }) {
    const spoken = SPOKEN[preset] ?? "";
    return spoken === this.draft.text("protocol") ? "" : spoken;
  }

  /** @param {Record<string, any>} probe */
  probeSo(probe) {
    const other = this.otherProtocol(probe);
    if (other) this.draft.set("protocol", other);
    this.probe = probe;
    this.trial.run();
  }

  /** A probe that was taken was of a server that speaks another protocol. */
  protocolPicked() {
    this.probe = null;
    this.trial.again();
  }

  /** What makes the fleet with its first replica; `filled`: with examples where nothing was typed. @param {boolean} filled */
  body(filled) {
    const { draft } = this;
    const or = (/** @type {string} */ name, /** @type {string} */ example) => draft.text(name) || (filled ? example : "");
    return {
      name: or("name", EXAMPLE.name),
      protocol: draft.text("protocol"),
      ...(draft.text("served_model") && { served_model: draft.text("served_model") }),
      ...(this.probe && { probe: this.probe }),
      ...this.#tls(),
      replicas: [{ name: or("replica", "a"), url: or("url", EXAMPLE.url) }],
    };
  }

  /** The same for a terminal, with the token where it was just made. */
  command() {
    const line = curl("POST", "/fleets", this.body(true));
    return this.token ? `export TOKEN=${this.token}\n${line}` : line;
  }

  async makeToken() {
    this.tokenProblem = "";
    try {
      this.token = (await api("POST", "/tokens", { body: { name: "first steps" } })).data.token;
    } catch (error) {
      this.tokenProblem = /** @type {Error} */ (error).message;
    }
    this.changed();
  }

  async submit() {
    const answer = await this.draft.send("POST", "/fleets", this.body(false), { taken: "name" });
    if (!answer) return;
    this.#keep(answer.data.name);
    this.changed();
    // The form is gone, and with it what had the focus.
    document.getElementById("setup-title")?.focus();
  }

  /** Whether a request has ever come through. @param {import("../frames.js").OverviewFrame} frame */
  answered({ fleets }) {
    this.hasAnswered ||= fleets.some((one) => one.name === this.fleet && (one.rps > 0 || one.p50_s !== null));
    return this.hasAnswered;
  }

  ready() {
    return this.replicas.some((one) => one.eligible);
  }

  /** With each frame: how the replicas are, and, while none is ready, what the first answers. */
  async look() {
    const now = performance.now();
    if (!this.begun || !this.fleet || now - this.lookedAt < LOOK_MS) return;
    this.lookedAt = now;
    try {
      this.replicas = await allPages(`/fleets/${this.fleet}/replicas`);
      if (!this.ready() && this.replicas.length && now - this.triedAt > TRY_AGAIN_MS) await this.#try(this.replicas[0].url);
    } catch {
      // Looked at again with the next frame; the page says when frames stop.
    }
    this.changed();
  }

  /** @param {string} url */
  async #try(url) {
    this.triedAt = performance.now();
    this.seen = (await api("POST", "/trial-probes", { body: { url, fleet: this.fleet } })).data;
  }
}
