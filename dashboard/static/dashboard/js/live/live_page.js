/** Live page: drawn again with every frame, every event and every choice of its reader. */
import { markersOf } from "../charts/markers.js";
import { chosenRange } from "../charts/range.js";
import { plural } from "../format.js";
import { searchField } from "../components/search.js";
import { showStalenessBadge } from "./staleness_badge.js";
import { renderPage } from "./rendering.js";
import { Events } from "./events.js";
import { Feed } from "./feed.js";

/**
 * What a page knows; `signature` changes whenever an event is to be expected.
 * @typedef {{frame: {table: string} | null, initial: (message: import("../frames.js").InitialMessage) => void,
 *   take: (frame: any) => void, signature: () => string}} Model
 */

/**
 * What one page has of its own. `content`: the component that is drawn. `workers`: how many are behind the
 * model's frame. `fresh`: there is another frame. `enter`: the reader pressed Enter in the search field.
 * @typedef {{model: Model, content: () => any, workers: () => number, fresh?: () => void, enter?: () => void}} Own
 */

export class LivePage {
  /** What is in the search field. */
  search = "";
  /** @type {Own | null} */
  #own = null;

  /** @param {string} path of the WebSocket @param {string | null} fleet whose events are read; null: of all */
  constructor(path, fleet) {
    this.draw = this.draw.bind(this);
    this.events = new Events(fleet, this.draw);
    this.seconds = chosenRange(this.draw);
    this.feed = new Feed(path, {
      initial: (message) => this.#take((model) => model.initial(message)),
      frame: (frame) => this.#take((model) => model.take(frame)),
      change: () => (this.badge(), this.draw()),
    });
    this.badge = showStalenessBadge(this.feed);
  }

  /** From here on the page lives. @param {Own} own */
  start(own) {
    this.#own = own;
    searchField({ changed: (words) => ((this.search = words), this.draw()), enter: own.enter });
    this.events.start();
    this.feed.start();
  }

  draw() {
    if (this.#own) renderPage(this.#own.content, this.feed.liveness !== "connecting");
  }

  /** What a chart of these numbers needs besides its kind. @param {import("./time_series.js").TimeSeries} series */
  chart(series) {
    const { list, version } = this.events;
    return { series, seconds: this.seconds(), markers: markersOf(list ?? []), markersVersion: version };
  }

  /** @param {(model: Model) => void} give */
  #take(give) {
    if (!this.#own) return;
    const { model, workers, fresh } = this.#own;
    give(model);
    this.events.hint(model.signature());
    if (model.frame) {
      sayWorkers(workers(), model.frame.table);
      fresh?.();
    }
    this.draw();
  }
}

/** At the foot of the navigation. @param {number} workers @param {string} table */
function sayWorkers(workers, table) {
  const foot = document.querySelector("[data-workers]");
  if (foot) foot.textContent = `${plural(workers, "worker")} · table ${table}`;
}
