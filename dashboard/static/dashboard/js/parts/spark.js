/** The last two minutes of one number as a line without axes; it says the shape, the cell beside it the value. */
import { html } from "../html.js";

const WIDTH = 74;
const HEIGHT = 18;
const LENGTH = 120;

/** @param {{values: (number | null)[], tone: "flow" | "slow"}} props */
export function Spark({ values, tone }) {
  return html`<svg class="spark ${tone}" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"><path d=${path(values)} /></svg>`;
}

/** Newest at the right edge; holes are left open. @param {(number | null)[]} values */
function path(values) {
  let top = 0;
  for (const value of values) if (value !== null && value > top) top = value;
  const scale = top > 0 ? (HEIGHT - 2) / top : 0;
  const first = LENGTH - values.length;
  let drawn = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const x = ((first + index) / (LENGTH - 1)) * WIDTH;
    drawn += `${pen}${x.toFixed(1)} ${(HEIGHT - 1 - value * scale).toFixed(1)}`;
    pen = "L";
  });
  return drawn;
}
