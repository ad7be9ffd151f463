/** Empty state of a live page: connected, and no frame has ever come. */
import { html } from "../html.js";

/** @param {{children?: any}} props `children`: what has not come, in a sentence. */
export function NoData({ children }) {
  return html`<section class="panel empty"><h2>No data yet</h2>
    <p>${children} Is it running? <code>.venv/bin/switchyard conductor</code> starts one.</p></section>`;
}
