/** View library: preact with htm's tagged templates, no build step. No other module names it. */
export { html, render, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
