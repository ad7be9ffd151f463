/** Chart with its heading: title, newest value (or the one under the cursor), legend. */
import { html, useEffect, useRef, useState } from "../html.js";
import { Quantity } from "../components/quantity.js";
import { clockTime, TimeChart } from "./time_chart.js";
import { onThemeChange } from "./palette.js";

/**
 * @typedef {{title: string, lines: (import("./time_chart.js").Line & {column: import("../live/time_series.js").ColumnName})[],
 *   quantity: (value: any) => import("../format.js").Quantity, tick: (value: number) => string, floor: number}} ChartKind
 */

/**
 * @param {{kind: ChartKind, series: import("../live/time_series.js").TimeSeries, seconds: number,
 *   markers: import("./markers.js").Marker[], markersVersion: number}} props
 */
export function ChartPanel({ kind, series, seconds, markers, markersVersion }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {TimeChart | null} */ (null));
  const now = useRef(markers);
  const [hovered, hover] = useState(/** @type {number | null} */ (null));
  now.current = markers;

  useEffect(() => {
    const made = new TimeChart(/** @type {HTMLElement} */ (place.current), {
      lines: kind.lines,
      floor: kind.floor,
      format: kind.tick,
      markers: () => now.current,
      hover,
    });
    chart.current = made;
    const forget = onThemeChange(() => made.recolor());
    return () => {
      forget();
      made.destroy();
    };
  }, []);
  useEffect(() => {
    chart.current?.show(columns(kind, series), seconds, `${series.version}.${markersVersion}`);
  });

  const at = hovered === null || hovered >= series.at.length ? null : hovered;
  return html`<section class="panel" aria-label=${`${kind.title}, chart`}>
    <div class="chart-head">
      <h2>${kind.title}</h2>
      ${kind.lines.map((line) => html`<${Reading} key=${line.column} line=${line} kind=${kind} series=${series} at=${at} />`)}
      ${at !== null && html`<time class="muted">${clockTime(series.at[at])}</time>`}
    </div>
    <div class="plot" ref=${place} role="img" aria-label=${summary(kind, series)}></div>
  </section>`;
}

/** @param {any} props */
function Reading({ line, kind, series, at }) {
  const value = series.columns[line.column].at(at ?? -1);
  return html`<span class="nowrap">${kind.lines.length > 1 && html`<i class="line-key" style=${{ color: `var(${line.token})` }}></i><span class="muted">${line.label} </span>`}
    <span class="big"><${Quantity} of=${kind.quantity(value ?? null)} /></span></span>`;
}

/** @param {ChartKind} kind @param {import("../live/time_series.js").TimeSeries} series */
function columns(kind, series) {
  return [series.at, ...kind.lines.map((line) => series.columns[line.column])];
}

/** For those who do not see the lines. @param {ChartKind} kind @param {import("../live/time_series.js").TimeSeries} series */
function summary(kind, series) {
  const parts = kind.lines.map((line) => {
    const peak = series.peak(line.column);
    return `${line.label}: ${peak === null ? "no values" : `at most ${kind.quantity(peak).join(" ")}`}`;
  });
  return `${kind.title}, last 15 minutes. ${parts.join("; ")}`;
}
