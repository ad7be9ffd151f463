/** Sparkline: the last two minutes of one number as a line without axes. */
import { html } from "../html.js";

const WIDTH = 74;
const HEIGHT = 18;
const LENGTH = 120;

/** Fewer points than this are a speck, not a shape. */
const ENOUGH = 5;

/** @param {{values: (number | null)[], tone: "flow" | "slow"}} props */
export function Sparkline({ values, tone }) {
  return html`<svg class="spark ${tone}" viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"><path d=${values.length < ENOUGH ? "" : path(values)} /></svg>`;
}

/** Around what is there, but never so close that noise looks like news. @param {(number | null)[]} values */
function bounds(values) {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (high === 0) return [0, 1];
  const span = Math.max(high - low, high * 0.5);
  return [Math.max(0, (low + high) / 2 - span * 0.6), (low + high) / 2 + span * 0.6];
}

/** Newest at the right edge; holes are left open. @param {(number | null)[]} values */
function path(values) {
  const [bottom, top] = bounds(values);
  const scale = (HEIGHT - 2) / (top - bottom);
  const first = LENGTH - values.length;
  let drawn = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const x = ((first + index) / (LENGTH - 1)) * WIDTH;
    drawn += `${pen}${x.toFixed(1)} ${(HEIGHT - 1 - (value - bottom) * scale).toFixed(1)}`;
    pen = "L";
  });
  return drawn;
}
