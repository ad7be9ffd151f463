/** A page of live numbers: drawn again with every frame, with every event and with every choice of its reader. */
import { markersOf } from "../charts/markers.js";
import { chosenRange } from "../charts/range.js";
import { plural } from "../format.js";
import { searchField } from "../parts/search.js";
import { showBadge } from "./badge.js";
import { show } from "./drawing.js";
import { Events } from "./events.js";
import { Feed } from "./feed.js";

/**
 * What a page knows; `signature` changes whenever an event is to be expected.
 * @typedef {{frame: {table: string} | null, hello: (hello: import("../frames.js").Hello) => void,
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
      hello: (hello) => this.#take((model) => model.hello(hello)),
      frame: (frame) => this.#take((model) => model.take(frame)),
      change: () => (this.badge(), this.draw()),
    });
    this.badge = showBadge(this.feed);
  }

  /** From here on the page lives. @param {Own} own */
  start(own) {
    this.#own = own;
    searchField({ changed: (words) => ((this.search = words), this.draw()), enter: own.enter });
    this.events.start();
    this.feed.start();
  }

  draw() {
    if (this.#own) show(this.#own.content, this.feed.liveness !== "connecting");
  }

  /** What a chart of these numbers needs besides its kind. @param {import("./series.js").Series} series */
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
