/** What the header says of the fleet. The server wrote it; it follows what is saved here and what others save. */
import { protocolWords } from "../edit/fleet_fields.js";

export class Heading {
  /** Of the newest frame; one that says the same as the one before may be older than what was just saved. */
  #framed = "";

  /** @param {string} protocol as the server wrote it */
  constructor(protocol) {
    this.protocol = protocol;
  }

  /** @param {{protocol: string, aliases: string[], default: boolean}} fleet as the API answers it */
  saved(fleet) {
    this.#say(fleet);
    const mark = tag("default");
    if (mark) mark.hidden = !fleet.default;
  }

  /** @param {import("../frames.js").FleetSummary} summary */
  frame({ protocol, aliases }) {
    const framed = JSON.stringify([protocol, aliases]);
    if (framed === this.#framed) return;
    this.#framed = framed;
    this.#say({ protocol, aliases });
  }

  /** @param {{protocol: string, aliases: string[]}} fleet */
  #say({ protocol, aliases }) {
    this.protocol = protocol;
    const spoken = tag("spoken");
    if (spoken) spoken.textContent = protocolWords(protocol);
    const names = tag("aliases");
    if (!names) return;
    names.textContent = aliases.join(", ");
    names.hidden = !aliases.length;
  }
}

/** @param {string} name @returns {HTMLElement | null} */
function tag(name) {
  return document.querySelector(`[data-${name}]`);
}
