/** Forms of a source: make it, change it, delete it. */
import { curl } from "../api.js";
import { Confirm } from "../edit/confirm.js";
import { FormPanel } from "../edit/form_panel.js";
import { plural } from "../format.js";
import { html } from "../html.js";
import { changes, newBody } from "./source_fields.js";
import { SourceFields } from "./source_form.js";
import { SourceTrialResult } from "./source_trial.js";

/** @param {{actions: import("./source_actions.js").SourceActions}} props */
export function NewSource({ actions }) {
  const { draft, trial } = actions;
  const body = newBody(draft);
  return html`<${FormPanel} title=${`New source of ${actions.fleet}`} draft=${draft} action="Create and follow" submit=${() => actions.make()} close=${() => actions.close()}
    command=${curl("POST", actions.path, { ...body, name: body.name || "pods" })}
    tools=${html`<button type="button" disabled=${draft.busy || trial.busy} aria-busy=${trial.busy} onClick=${() => trial.run()}>Try</button>`}>
    <${SourceFields} draft=${draft} fresh classes=${actions.classes} />
    <${SourceTrialResult} trial=${trial} />
  <//>`;
}

/** @param {{actions: import("./source_actions.js").SourceActions}} props */
export function EditSource({ actions }) {
  const { edit, open } = actions;
  if (!edit) return html`<section class="panel"><p class="muted" role="status">Reading the source …</p></section>`;
  const { draft, trial } = edit;
  const { name } = open;
  const { kind = "", replicas = 0 } = actions.sources.of(name) ?? {};
  const follows = replicas ? ` What it says of its ${plural(replicas, "replica")} follows at its next list.` : "";
  return html`<${FormPanel} key=${name} title=${`Edit ${name}`} draft=${draft} action="Save" ready=${draft.dirty()} submit=${() => actions.save()} close=${() => actions.close()}
    command=${curl("PATCH", `${actions.path}/${name}`, changes(draft))}
    tools=${html`<button type="button" disabled=${draft.busy || trial.busy} aria-busy=${trial.busy} onClick=${() => trial.run()}>Try</button>
      ${draft.dirty() && html`<button type="button" onClick=${() => draft.reset()}>Discard</button>`}`}>
    <p class="help">It stays of its kind (${kind}).${follows}</p>
    <${SourceFields} draft=${draft} fresh=${false} classes=${actions.classes} />
    <${SourceTrialResult} trial=${trial} />
  <//>`;
}

/** @param {{source: import("./sources.js").Source, actions: import("./source_actions.js").SourceActions}} props */
export function DeleteSource({ source: { name, kind, replicas }, actions }) {
  const { row } = actions;
  const one = replicas === 1;
  return html`<${Confirm} action=${`Delete ${name}`} busy=${row.busy} problem=${row.problem} confirm=${() => actions.remove(name)} close=${() => actions.close()} command=${curl("DELETE", `${actions.path}/${name}`)}>
    <p>${name} is followed no longer. ${replicas ? html`Its <b>${plural(replicas, "replica")}</b> ${one ? "stays and goes" : "stay and go"} on serving, and ${one ? "is" : "are"} people's from then on: you change and remove ${one ? "it" : "them"}.
      ${" "}Making the source again does not give ${one ? "it" : "them"} back. To follow it no longer for a while, pause it instead.` : "It has registered no replica."}
      ${kind === "lease" && " Replicas that renew their lease are told that there is no such source."}</p>
  <//>`;
}
