/** Form field for a memory size; it says how it understood what was typed. */
import { parseBytes, understood } from "../bytes.js";
import { html } from "../html.js";
import { TextEntry } from "./fields.js";

/** @param {{draft: import("./draft.js").Draft, name: string, label: string, placeholder?: string, required?: boolean, help?: string}} props */
export function BytesEntry({ help = "", ...props }) {
  const { draft, name } = props;
  const text = draft.text(name);
  // The API takes a number only and says so, but here its unit may be written too.
  const refused = draft.errors[name] && typeof parseBytes(text) === "string";
  const wrong = refused ? `must be an amount of memory, such as 80 GiB, 512 MiB or a number of bytes, not "${text}"` : undefined;
  return html`<${TextEntry} ...${props} wrong=${wrong} help=${(!refused && understood(text)) || help} />`;
}
