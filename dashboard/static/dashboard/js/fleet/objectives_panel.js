/** Objectives panel: what the policy promises, how much of it was kept, what is left of the error budget, and its burn. */
import { html } from "../html.js";
import { PolledResource } from "../live/polled_resource.js";
import { State } from "../components/state.js";
import { NOTHING, plural } from "../format.js";

const EVERY_MS = 5_000;
const TITLES = /** @type {Record<string, string>} */ ({ success: "Success", latency: "Latency", first_token: "First token" });
/** Word and state of what burns: as severe as its alert. */
const BURNING = /** @type {Record<string, [state: string, word: string]>} */ ({
  outage: ["down", "broken"],
  fast: ["down", "burns fast"],
  slow: ["unready", "burns slowly"],
  lasting: ["unready", "burns"],
});

/**
 * @typedef {{kind: string, words: string, requests: number, bad: number, attained_percent: number | null, window_days: number,
 *   budget_left_percent: number | null, burn: Record<string, number | null>, burning: string | null, untold: string}} Objective
 */

export class Objectives {
  /** @param {string} fleet @param {() => void} changed */
  constructor(fleet, changed) {
    this.poll = new PolledResource(`/fleets/${fleet}/objectives`, EVERY_MS, changed);
    this.poll.start();
  }

  /** @returns {Objective[]} */
  get list() {
    return this.poll.data?.objectives ?? [];
  }
}

/** Not there where nothing is promised. @param {{objectives: Objectives}} props */
export function ObjectivesPanel({ objectives }) {
  const { list } = objectives;
  if (!list.length) return "";
  const windows = Object.keys(list[0]?.burn ?? {});
  return html`<section class="panel table-panel data" aria-labelledby="objectives-title">
    <h2 id="objectives-title" class="table-title">Objectives</h2>
    <div class="scroll"><table class="cards">
      <thead><tr><th scope="col">Objective</th><th scope="col">State</th><th scope="col" class="num">Attained</th><th scope="col" class="num">Budget left</th>
        ${windows.map((name) => html`<th scope="col" class="num" key=${name}>Burn, ${spaced(name)}</th>`)}</tr></thead>
      <tbody>${list.map((one) => html`<${Row} key=${one.kind} one=${one} windows=${windows} />`)}</tbody>
    </table></div>
  </section>`;
}

/** @param {{one: Objective, windows: string[]}} props */
function Row({ one, windows }) {
  const [state, word] = verdict(one);
  const left = one.budget_left_percent;
  return html`<tr data-objective=${one.kind}>
    <td class="wrap full"><b>${TITLES[one.kind]}</b><span class="sub">${one.words}, over ${one.window_days} d</span></td>
    <td class="half wrap"><${State} state=${state} word=${word} />${one.untold && html`<span class="sub">${one.untold}</span>`}</td>
    <td class="num" data-label="Attained">${percent(one.attained_percent, 3)}<span class="sub">${one.bad.toLocaleString("en")} bad of ${plural(one.requests, "request")}</span></td>
    <td class=${`num${left !== null && left < 0 ? " is-down" : ""}`} data-label="Budget left">${percent(left, 1)}</td>
    ${windows.map((name) => html`<td class="num" key=${name} data-label=${`Burn, ${spaced(name)}`}>${rate(one.burn[name] ?? null)}</td>`)}
  </tr>`;
}

/** @param {Objective} one @returns {[state: string, word: string]} */
function verdict({ burning, attained_percent, budget_left_percent, untold }) {
  if (burning) return BURNING[burning] ?? ["down", burning];
  if (untold) return ["checking", "nothing streams"];
  if (attained_percent === null || budget_left_percent === null) return ["checking", "too few requests to tell"];
  return budget_left_percent < 0 ? ["unready", "missed"] : ["ready", "met"];
}

/** @param {number | null} value @param {number} digits */
function percent(value, digits) {
  return value === null ? NOTHING : `${Number(value.toFixed(digits))} %`;
}

/** @param {number | null} value */
function rate(value) {
  return value === null ? NOTHING : `${Number(value.toPrecision(3))} ×`;
}

/** "5m" → "5 min" @param {string} name */
function spaced(name) {
  return name.replace(/^(\d+)m$/, "$1 min").replace(/^(\d+)([hd])$/, "$1 $2");
}
