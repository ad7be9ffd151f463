/** Probe results in a replica's row: the last 50, equal ones in a row as one line, and a probe at once. */
import { api } from "../api.js";
import { Shape } from "../components/state.js";
import { age, duration, plural, text } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { MAY_OPERATE } from "../may_change.js";

const AGAIN_MS = 2000;

/** @typedef {{age_s: number, passed: boolean, answer: string, latency_ms: number}} ProbeResult */
/** Equal answers in a row, the newest first. @typedef {{passed: boolean, answer: string, newest_s: number, oldest_s: number, ms: number[]}} Run */

/** @param {{fleet: string, name: string, onClose: () => void}} props */
export function ProbeResults({ fleet, name, onClose }) {
  const path = `/fleets/${fleet}/replicas/${name}/probes`;
  const [results, setResults] = useState(/** @type {ProbeResult[] | null} */ (null));
  const [problem, setProblem] = useState("");
  const [probing, setProbing] = useState(false);
  const [said, say] = useState("");
  const close = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => close.current?.focus(), []);
  useEffect(() => {
    let ended = false;
    /** @type {number} */
    let timer;
    const read = async () => {
      try {
        const { data } = await api("GET", path);
        if (ended) return;
        setResults(data.results);
        setProblem("");
      } catch (error) {
        if (!ended) setProblem(/** @type {Error} */ (error).message);
      }
      if (!ended) timer = setTimeout(read, AGAIN_MS);
    };
    read();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [path]);

  // The button stays enabled, for a disabled one loses the focus, and the keys with it.
  async function probe() {
    if (probing) return;
    setProbing(true);
    say("");
    try {
      const { data } = await api("POST", path);
      setResults(data.results);
      say(data.probed ? "Probed just now." : "No result within 5 s: it appears here when it comes.");
    } catch (error) {
      say(/** @type {Error} */ (error).message);
    }
    setProbing(false);
  }

  const leave = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onClose();
  return html`<section class="edit in-row probes" aria-label=${`Probe results of ${name}`} onKeyDown=${leave}>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${results && !results.length && html`<p class="muted">No probe result yet.</p>`}
    ${results && results.length > 0 && html`<table>
      <thead><tr><th scope="col">Result</th><th scope="col" class="num">Times</th><th scope="col" class="num">Ago</th><th scope="col" class="num">Took</th></tr></thead>
      <tbody>${runs(results).map((run) => html`<tr key=${run.oldest_s.toFixed(0)} data-passed=${run.passed}>
        <td class="wrap"><span class=${`state is-${run.passed ? "ready" : "down"}`}><${Shape} state=${run.passed ? "ready" : "down"} />${run.passed ? "passed" : "failed"}</span> ${run.answer}</td>
        <td class="num">${run.ms.length}</td><td class="num">${span(run)}</td><td class="num">${took(run.ms)}</td>
      </tr>`)}</tbody></table>`}
    <div class="row">
      ${MAY_OPERATE && html`<button type="button" aria-disabled=${probing} aria-busy=${probing} onClick=${probe}>Probe now</button>`}
      <button ref=${close} type="button" onClick=${onClose}>Close</button>
      <span class="muted" role="status">${said || (results && results.length > 0 && `the last ${plural(results.length, "result")}, newest first`)}</span>
    </div>
  </section>`;
}

/** @param {ProbeResult[]} results newest first @returns {Run[]} */
export function runs(results) {
  /** @type {Run[]} */
  const found = [];
  for (const { age_s, passed, answer, latency_ms } of results) {
    const last = found.at(-1);
    if (last && last.passed === passed && last.answer === answer) {
      last.oldest_s = age_s;
      last.ms.push(latency_ms);
    } else found.push({ passed, answer, newest_s: age_s, oldest_s: age_s, ms: [latency_ms] });
  }
  return found;
}

/** @param {Run} run */
function span({ newest_s: newest, oldest_s: oldest }) {
  return age(newest) === age(oldest) ? age(newest) : `${age(newest)} to ${age(oldest)}`;
}

/** @param {number[]} ms */
function took(ms) {
  const [least, most] = [Math.min(...ms), Math.max(...ms)].map((each) => text(duration(each / 1000)));
  return least === most ? least : `${least} to ${most}`;
}
