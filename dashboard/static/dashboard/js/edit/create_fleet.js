/** Form of a new fleet; its replicas are then registered on its page. */
import { api, curl } from "../api.js";
import { html } from "../html.js";
import { Draft } from "./draft.js";
import { SelectEntry, TextEntry } from "./fields.js";
import { bodyOf, fieldOf, FleetFields, valuesOf } from "./fleet_fields.js";
import { FormPanel } from "./form_panel.js";

const PATH = "/fleets";

export class NewFleet {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.draft = new Draft("fleet", { name: "", ...valuesOf({}), strategy: "" }, changed, fieldOf);
    /** @type {{name: string, sentence: string}[]} */
    this.strategies = [];
  }

  /** The strategies there are; without them the default can still be had. */
  async read() {
    try {
      this.strategies = (await api("GET", "/strategies")).data;
      this.changed();
    } catch {
      // The form says "default" and nothing else.
    }
  }

  body() {
    const strategy = this.draft.text("strategy");
    return { name: this.draft.text("name"), ...bodyOf(this.draft, true), ...(strategy && { policy: { strategy } }) };
  }

  async submit() {
    const answer = await this.draft.send("POST", PATH, this.body(), { taken: "name" });
    if (answer) location.assign(`/fleets/${answer.data.name}#register`);
  }
}

/** @param {{fleet: NewFleet, close: () => void}} props */
export function CreateFleet({ fleet, close }) {
  const { draft, strategies } = fleet;
  const chosen = strategies.find((one) => one.name === draft.text("strategy"));
  const body = fleet.body();
  return html`<${FormPanel} title="New fleet" draft=${draft} action="Create" submit=${() => fleet.submit()} close=${close}
    command=${curl("POST", PATH, { ...body, name: body.name || "llama-3-8b" })}>
    <div class="form">
      <${TextEntry} draft=${draft} name="name" label="Name" placeholder="llama-3-8b" required help="Clients send it as the model. It cannot be changed later; aliases can." />
      <${FleetFields} draft=${draft} />
      <${SelectEntry} draft=${draft} name="strategy" label="Strategy" options=${[["", "default"], ...strategies.map(({ name }) => [name, name.replaceAll("_", " ")])]}
        help=${chosen?.sentence ?? "How a replica is picked. It can be changed later on the fleet's page."} />
    </div>
  <//>`;
}
