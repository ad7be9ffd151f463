/** Memory meter: used bytes against available bytes, as a bar and in figures. */
import { bytes } from "../bytes.js";
import { text } from "../format.js";
import { html } from "../html.js";
import { Quantity } from "../components/quantity.js";

/** @param {{value: number, of: number, loud?: boolean}} props `loud`: being nearly full is worth a look */
export function MemoryMeter({ value, of, loud = false }) {
  const filled = of > 0 ? Math.min(100, (100 * value) / of) : value > 0 ? 100 : 0;
  const tone = loud && filled >= 85 ? "warn" : "";
  return html`<span class="figures"><span class="meter ${tone}" aria-hidden="true"><i style=${{ width: `${filled}%` }}></i></span
    ><span class="nowrap"><${Quantity} of=${bytes(value)} /> <span class="unit">of ${text(bytes(of))}</span></span></span>`;
}
