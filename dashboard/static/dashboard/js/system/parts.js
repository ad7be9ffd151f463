/** Table of Switchyard's parts: state, what it means, what to do, figures. */
import { html } from "../html.js";
import { Level, Words } from "./health_level.js";

/** @param {{parts: import("./health_level.js").SystemComponent[]}} props */
export function Parts({ parts }) {
  return html`<section class="panel table-panel data" aria-label="Parts">
    <div class="scroll"><table class="cards system-parts">
      <thead><tr><th scope="col">Part</th><th scope="col">State</th><th scope="col">What it means</th><th scope="col">Figures</th></tr></thead>
      <tbody>${parts.map((part) => html`<tr key=${part.name} data-part=${part.name}>
        <td class="half"><b>${part.title}</b></td>
        <td class="half"><${Level} judged=${part} /></td>
        <td class="wrap full"><${Words} judged=${part} /></td>
        <td class="wrap full figures">${Object.entries(part.facts).map(([name, value]) => html`<span class="fact" key=${name}><span class="muted">${name}</span> ${value}</span>`)}</td>
      </tr>`)}</tbody>
    </table></div>
  </section>`;
}
