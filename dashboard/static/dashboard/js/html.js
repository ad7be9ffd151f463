/** The one place that names the view library: preact with htm's tagged templates, no build step. */
export { html, render, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
