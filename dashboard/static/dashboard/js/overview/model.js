/** What the overview knows: the last frame, the history of all fleets together, two minutes of each fleet. */
import { Series } from "../live/series.js";
import { Trail } from "../live/trail.js";

export class OverviewModel {
  constructor() {
    /** @type {import("../frames.js").OverviewFrame | null} */
    this.frame = null;
    this.series = new Series();
    this.flow = new Trail();
    this.slow = new Trail();
  }

  /** @param {import("../frames.js").Hello} hello */
  hello({ history, frame, sparks }) {
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
