/** State of the overview: last frame, history of all fleets together, sparklines of each fleet. */
import { TimeSeries } from "../live/time_series.js";
import { SparklineBuffer } from "../live/sparkline_buffer.js";

export class OverviewModel {
  constructor() {
    /** @type {import("../frames.js").OverviewFrame | null} */
    this.frame = null;
    this.series = new TimeSeries();
    this.flow = new SparklineBuffer();
    this.slow = new SparklineBuffer();
  }

  /** @param {import("../frames.js").InitialMessage} message */
  initial({ history, frame, sparks }) {
    this.series.reset(history);
    for (const [name, spark] of Object.entries(sparks)) {
      this.flow.reset(name, spark.rps);
      this.slow.reset(name, spark.p99_s);
    }
    if (!frame) return;
    this.frame = frame;
    this.series.push(frame.total);
  }

  /** @param {import("../frames.js").OverviewFrame} next */
  take(next) {
    this.frame = next;
    this.series.push(next.total);
    for (const fleet of next.fleets) {
      this.flow.push(fleet.name, fleet.rps);
      this.slow.push(fleet.name, fleet.p99_s);
    }
  }

  /** Changes whenever an event is to be expected. */
  signature() {
    return JSON.stringify(this.frame?.fleets.map((fleet) => [fleet.name, fleet.revision, fleet.states]) ?? []);
  }
}
