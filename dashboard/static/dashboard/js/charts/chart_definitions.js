/** The chart definitions, and which page shows which: requests, latency, in flight. */
import { count, duration, rate, tick } from "../format.js";

/** @type {import("./chart_panel.js").ChartKind} */
const REQUESTS = {
  title: "Requests",
  lines: [{ label: "requests", token: "--accent", column: "rps", fill: true }],
  quantity: (value) => (value === null ? duration(null) : rate(value)),
  tick: (value) => tick(value, "/s"),
  floor: 1,
};

/** @type {import("./chart_panel.js").ChartKind} */
const LATENCY = {
  title: "Latency",
  lines: [
    { label: "p50", token: "--p50", column: "p50" },
    { label: "p99", token: "--p99", column: "p99" },
  ],
  quantity: duration,
  tick: (value) => (value < 1 ? tick(value * 1000, "ms") : tick(value, "s")),
  floor: 0.001,
};

/** @type {import("./chart_panel.js").ChartKind} */
const IN_FLIGHT = {
  title: "In flight",
  lines: [
    { label: "all", token: "--flow", column: "inFlight", fill: true },
    { label: "queued", token: "--p99", column: "waiting" },
  ],
  quantity: (value) => (value === null ? duration(null) : [count(value), ""]),
  tick: (value) => tick(value, ""),
  floor: 4,
};

export const OVERVIEW_CHARTS = [REQUESTS, LATENCY];
export const FLEET_CHARTS = [REQUESTS, LATENCY, IN_FLIGHT];
