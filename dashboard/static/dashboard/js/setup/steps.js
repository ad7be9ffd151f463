/** First steps of an empty install (onboarding): three steps on one page that follows by itself. */
import { SelectEntry, TextEntry } from "../edit/fields.js";
import { PROTOCOLS, protocolText, TlsFields } from "../edit/fleet_fields.js";
import { TrialProbeResult } from "../edit/trial_probe.js";
import { sentence } from "../format.js";
import { html } from "../html.js";
import { MAY_CHANGE } from "../may_change.js";
import { Copyable } from "../components/copyable.js";
import { ProxyRequest } from "../components/proxy_request.js";
import { State } from "../components/state.js";

/**
 * @param {{setup: import("./setup.js").Setup, frame: import("../frames.js").OverviewFrame, proxyUrl: string, tokensUrl: string, keyed: boolean}} props
 *   `keyed`: requests need a client key
 */
export function FirstSteps({ setup, frame, proxyUrl, tokensUrl, keyed }) {
  const registered = Boolean(setup.fleet);
  const ready = setup.ready();
  const summary = frame.fleets.find((one) => one.name === setup.fleet);
  return html`<section class="panel setup" aria-labelledby="setup-title">
    <div class="edit-head"><h2 id="setup-title" tabindex="-1">${!registered ? "No fleets yet: three steps to the first response" : ready ? `${setup.fleet} takes requests` : `${setup.fleet} is registered`}</h2>
      ${registered && html`<button type="button" class=${ready ? "primary" : ""} onClick=${() => setup.finish()}>Go to the overview</button>`}</div>
    <ol class="steps">
      <${Step} number="1" title="Register a model server" done=${registered}>
        ${registered ? html`<p>Fleet <a href=${`/fleets/${setup.fleet}`}>${setup.fleet}</a> is registered${summary ? "" : "; the next frame will show it"}.</p>` : MAY_CHANGE ? html`<${Registering} setup=${setup} tokensUrl=${tokensUrl} />` : html`<${OnlyLooking} setup=${setup} />`}
      <//>
      <${Step} number="2" title=${ready ? "Its probe passes" : "Wait for its first passed probe"} done=${ready}>${registered ? html`<${Waiting} setup=${setup} />` : html`<p class="muted" role="status"><span class="pulse" aria-hidden="true"></span>Waiting for the first replica … This page shows it as soon as it is registered.</p>`}<//>
      <${Step} number="3" title="Send a request" done=${setup.answered(frame)}>${ready ? html`<${Send} setup=${setup} frame=${frame} summary=${summary} proxyUrl=${proxyUrl} keyed=${keyed} />` : html`<p class="muted">The command appears here as soon as a replica is ready.</p>`}<//>
    </ol>
  </section>`;
}

/** @param {{number: string, title: string, done: boolean, children?: any}} props */
function Step({ number, title, done, children }) {
  return html`<li class=${done ? "step done" : "step"}><span class="step-number" aria-hidden="true">${done ? "✓" : number}</span>
    <div class="stack"><h3>${title}${done && html`<span class="visually-hidden"> (done)</span>`}</h3>${children}</div></li>`;
}

/** @param {{setup: import("./setup.js").Setup, tokensUrl: string}} props */
function Registering({ setup, tokensUrl }) {
  const { draft, trial } = setup;
  const again = () => trial.again();
  const fits = trial.found?.fits?.probe;
  const other = fits ? setup.otherProtocol(fits) : "";
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!draft.busy) setup.submit();
  };
  return html`<form class="edit" noValidate onSubmit=${submit}>
      <div class="form">
        <${TextEntry} draft=${draft} name="url" label="Server URL" placeholder="http://10.0.0.1:8000" inputmode="url" required help="The model server's base URL, as the proxies reach it."
          onInput=${() => setup.urlTyped()} onBlur=${again} />
        <${TextEntry} draft=${draft} name="name" label="Model name" placeholder="my-model" required help="Clients send it as the model. It is also the fleet's name." onBlur=${again} />
        <${SelectEntry} draft=${draft} name="protocol" label="Protocol" options=${PROTOCOLS} help="The server's API." onPick=${() => setup.protocolPicked()} />
        <${TextEntry} draft=${draft} name="served_model" label="Served model" placeholder="same as the model name" help="The server's own name of the model, if it differs." onBlur=${again} />
        ${setup.isSecure() && html`<${TlsFields} draft=${draft} onBlur=${again} />`}
        <${TextEntry} draft=${draft} name="replica" label="Replica name" placeholder="a" required help="A name for this server." />
        <${TrialProbeResult} trial=${trial} use=${(/** @type {any} */ probe) => setup.probeSo(probe)} useWords=${other ? `Use ${protocolText(other)} and this probe` : "Use this probe"} />
      </div>
      <div class="row"><button class="primary" disabled=${draft.busy} aria-busy=${draft.busy}>Register</button>
        <button type="button" disabled=${trial.busy} aria-busy=${trial.busy} onClick=${() => trial.run()}>Try</button></div>
      ${draft.problem && html`<p class="problem" role="alert">${draft.problem}</p>`}
    </form>
    <p class="muted">Or run this in a terminal. It contains what is typed above.</p>
    <${Copyable} label="Register from a terminal" text=${setup.command()} />
    <${Token} setup=${setup} tokensUrl=${tokensUrl} />
    <p class="muted">For a whole installation, keep the fleets in a file: <code>.venv/bin/switchyard apply fleets.yaml</code>.</p>`;
}

/** @param {{setup: import("./setup.js").Setup, tokensUrl: string}} props */
function Token({ setup, tokensUrl }) {
  const page = tokensUrl ? html`<a href=${tokensUrl}>API tokens</a>` : html`<code>.venv/bin/switchyard createtoken USER NAME</code>`;
  if (setup.token) return html`<p class="applied" role="status">The command contains a new token, “first steps”. It is shown only now; ${page} revokes it.</p>`;
  return html`<p><button type="button" onClick=${() => setup.makeToken()}>Put a new API token into the command</button> <span class="muted">or set TOKEN to one that you have (${page}).</span></p>
    ${setup.tokenProblem && html`<p class="problem" role="alert">${setup.tokenProblem}</p>`}`;
}

/** @param {{setup: import("./setup.js").Setup}} props */
function OnlyLooking({ setup }) {
  return html`<p>Your account has read-only access. Somebody with write access can register the first one, here or with:</p>
    <${Copyable} label="Register from a terminal" text=${setup.command()} />`;
}

/** @param {{setup: import("./setup.js").Setup}} props */
function Waiting({ setup }) {
  const { replicas, seen, fleet } = setup;
  if (!replicas.length) return html`<p class="muted" role="status"><span class="pulse" aria-hidden="true"></span>Waiting for the first replica of ${fleet} …</p>`;
  return html`<div role="status"><ul class="stack">${replicas.map((one) => html`<li key=${one.name} data-first=${one.name}><${State} state=${one.eligible ? "ready" : one.health.state} /> <b>${one.name}</b> <span class="mono">${one.url}</span>
      ${!one.eligible && html`<br /><span class="muted">${one.why}</span>`}</li>`)}</ul></div>
    ${!setup.ready() && seen && html`<div class=${`trial ${seen.outcome === "ready" ? "busy" : "bad"}`} role="status" data-trial=${seen.outcome}>
      <span>${sentence(seen.words)} <span class="muted">${seen.asked}</span></span>
      ${seen.fits && html`<span class="muted">A probe that fits: ${seen.fits.words}.</span>`}
      ${MAY_CHANGE && seen.outcome !== "ready" && html`<span class="muted">Change protocol, served model or probe: <a href=${`/fleets/${fleet}#edit`}>edit the fleet</a>.</span>`}</div>`}`;
}

/** @param {{setup: import("./setup.js").Setup, frame: import("../frames.js").OverviewFrame, summary: import("../frames.js").FleetSummary | undefined, proxyUrl: string, keyed: boolean}} props */
function Send({ setup, frame, summary, proxyUrl, keyed }) {
  const fleet = { name: setup.fleet, protocol: summary?.protocol ?? setup.draft.text("protocol") };
  return html`<${ProxyRequest} proxyUrl=${proxyUrl} fleet=${fleet} keyed=${keyed} />
    ${!frame.workers.length && html`<p class="problem">No proxy reports: is one running? <code>.venv/bin/switchyard proxy --redis URL</code> starts one.</p>`}
    <p role="status">${setup.answered(frame) ? html`<${State} state="ready" word="answered" /> The first request has come through.` : html`<span class="muted"><span class="pulse" aria-hidden="true"></span>Waiting for the first request …</span>`}</p>`;
}
