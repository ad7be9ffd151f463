/** Event annotations: dashed lines over a chart that explain its bends. */
import { color } from "./palette.js";

/** Labels closer than this would be written over each other. */
const LABEL_ROOM_PX = 96;
const LONGEST_LABEL = 22;
/** Events that explain a bend; the rest is for the timeline. */
const WORTH_A_LINE = new Set(["ejected", "down", "unready", "draining", "maintenance", "refusing"]);

/** @typedef {{at: number, label: string, state: string}} Marker */

/** @param {import("../live/events.js").Event[]} events newest first @returns {Marker[]} oldest first */
export function markersOf(events) {
  return changes(events)
    .filter((event) => event.kind === "policy" || WORTH_A_LINE.has(event.state))
    .map((event) => ({ at: Date.parse(event.at) / 1000, label: label(event), state: event.state }));
}

/**
 * Oldest first, without those that say once more what a replica is: one that stays dead is ejected again every few
 * seconds, and a line for each would hide the chart.
 * @param {import("../live/events.js").Event[]} events newest first
 */
function changes(events) {
  /** @type {Map<string, string>} */
  const states = new Map();
  return events.toReversed().filter(({ fleet, replica, state }) => {
    if (!replica || !state) return true;
    const key = `${fleet}/${replica}`;
    const changed = states.get(key) !== state;
    states.set(key, state);
    return changed;
  });
}

/** @param {import("../live/events.js").Event} event */
function label({ kind, replica, state, text }) {
  if (kind === "policy") return replica ? `${replica} reweighed` : "policy changed";
  if (state === "refusing") return "requests refused";
  const words = replica ? `${replica} ${state}` : text;
  return words.length > LONGEST_LABEL ? `${words.slice(0, LONGEST_LABEL - 1)}…` : words;
}

/** uPlot plugin. @param {() => Marker[]} markers */
export function markerLines(markers) {
  return { hooks: { draw: [(/** @type {any} */ plot) => drawMarkers(plot, markers())] } };
}

/** @param {any} plot @param {Marker[]} markers */
function drawMarkers(plot, markers) {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.font = `${10.5 * scale}px Inter, system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  ctx.setLineDash([3 * scale, 3 * scale]);
  ctx.lineWidth = scale;
  const inView = markers
    .map((marker) => ({ ...marker, x: plot.valToPos(marker.at, "x", true), ink: color(marker.state ? `--${marker.state}` : "--ink-3") }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
  for (const { x, ink } of inView) {
    ctx.strokeStyle = ink;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  // Newest first: of two labels that would collide, the newer one is written.
  let taken = Infinity;
  for (const { x, ink, label } of inView.toReversed()) {
    if (taken - x < LABEL_ROOM_PX * scale) continue;
    ctx.fillStyle = ink;
    taken = writeLabel(ctx, label, x, bbox, scale);
  }
  ctx.restore();
}

/** Right of its line where there is room, else left of it. Answers where the label begins. @param {any} ctx @param {string} label @param {number} x @param {any} bbox @param {number} scale */
function writeLabel(ctx, label, x, bbox, scale) {
  const width = ctx.measureText(label).width;
  const gap = 4 * scale;
  const left = bbox.left + bbox.width - x > width + 2 * gap ? x + gap : x - gap - width;
  const ink = ctx.fillStyle;
  ctx.fillStyle = color("--panel");
  ctx.fillRect(left - 2 * scale, bbox.top - scale, width + 4 * scale, 14 * scale);
  ctx.fillStyle = ink;
  ctx.fillText(label, left, bbox.top);
  return Math.min(left, x);
}
