/** Hardware page: hardware classes, which give replicas their weight, and accelerators, whose memory replicas share. */
import { AcceleratorForm } from "../accelerators/form.js";
import { Hosts } from "../accelerators/measured.js";
import { AcceleratorsModel } from "../accelerators/model.js";
import { Accelerators } from "../accelerators/table.js";
import { html } from "../html.js";
import { ListPage } from "../live/list_page.js";
import { MAY_CHANGE } from "../may_change.js";
import { HardwareForm } from "./form.js";
import { HardwareModel, PATH } from "./model.js";
import { HardwareTable, NoHardware } from "./table.js";

const NEW_ACCELERATOR = "new-accelerator";
const page = new ListPage(PATH, "hardware classes");
const model = new HardwareModel(page.polling, page.panels, page.draw);
const accelerators = new AcceleratorsModel(page.panels, page.draw);

page.start({
  form: () => html`<${HardwareForm} model=${model} />`,
  table: (list) => html`<${HardwareTable} model=${model} list=${list} search=${page.search} />`,
  empty: () => html`<${NoHardware} />`,
  above: () => page.panels.open === NEW_ACCELERATOR && html`<${AcceleratorForm} model=${accelerators} />`,
  below: () => html`<${Accelerators} model=${accelerators} search=${page.search} /><${Hosts} hosts=${accelerators.hosts} />`,
});
accelerators.start();
if (location.hash === `#${NEW_ACCELERATOR}` && MAY_CHANGE) page.panels.show(NEW_ACCELERATOR);
