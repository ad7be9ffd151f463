/** Hardware classes: the weights that replicas take from what they run on. */
import { html } from "../html.js";
import { ListPage } from "../live/list_page.js";
import { HardwareForm } from "./form.js";
import { HardwareModel, PATH } from "./model.js";
import { HardwareTable, NoHardware } from "./table.js";

const page = new ListPage(PATH, "hardware classes");
const model = new HardwareModel(page.reading, page.panels, page.draw);

page.start({
  form: () => html`<${HardwareForm} model=${model} />`,
  table: (list) => html`<${HardwareTable} model=${model} list=${list} search=${page.search} />`,
  empty: () => html`<${NoHardware} />`,
});
