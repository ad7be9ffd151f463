/** State of a fleet page: last frame, history, each replica's p99, and the replicas' settings from the API. */
import { allPages } from "../live/polling.js";
import { TimeSeries } from "../live/time_series.js";
import { SparklineBuffer } from "../live/sparkline_buffer.js";

export class FleetModel {
  /** @param {string} name @param {() => void} changed */
  constructor(name, changed) {
    this.name = name;
    this.changed = changed;
    /** @type {import("../frames.js").FleetFrame | null} */
    this.frame = null;
    this.series = new TimeSeries();
    this.slow = new SparklineBuffer();
    /** Replica name → what operators set. @type {Map<string, import("../edit/replica_fields.js").ReplicaSettings>} */
    this.settings = new Map();
    this.known = "";
  }

  /** @param {import("../frames.js").InitialMessage} message */
  initial({ history, frame }) {
    this.series.reset(history);
    if (frame) this.take(frame);
  }

  /** @param {import("../frames.js").FleetFrame} next */
  take(next) {
    this.frame = next;
    this.series.push(next.point);
    for (const replica of next.replicas) this.slow.push(replica.name, replica.p99_s);
    const known = JSON.stringify([next.table, next.summary.revision, next.replicas.map((replica) => replica.name)]);
    if (known === this.known) return;
    this.known = known;
    this.readSettings();
  }

  /** URL, hardware and own weight are in no frame. Pages of a long list are all read. */
  async readSettings() {
    try {
      const all = await allPages(`/fleets/${this.name}/replicas`);
      this.settings = new Map(all.map((replica) => [replica.name, replica]));
      this.changed();
    } catch {
      this.known = ""; // asked again with the next frame
    }
  }

  /** Changes whenever an event is to be expected. */
  signature() {
    return JSON.stringify([this.frame?.summary.revision, this.frame?.replicas.map((replica) => [replica.name, replica.state])]);
  }
}
