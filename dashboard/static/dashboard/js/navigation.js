/** Navigation: its links to the fleets. The server wrote them; fleets come and go while the page is open. */
import { api } from "./api.js";

const PERIOD_MS = 5_000;
/** As many as the server writes. */
const MOST = 20;
const nav = document.querySelector(".nav");
let shown = links().map(nameOf).join();

function links() {
  return [...document.querySelectorAll("a.nav-fleet")];
}

/** @param {Element} link */
function nameOf(link) {
  return link.textContent ?? "";
}

async function read() {
  if (document.hidden) return;
  try {
    const { data } = await api("GET", `/fleets?page_size=${MOST}`);
    show(data.results.map((/** @type {{name: string}} */ fleet) => fleet.name));
  } catch {
    // What was known last stays: the page itself says that the server is away.
  }
}

/** Links that stay are the same ones, so that none loses the focus. @param {string[]} names in order */
function show(names) {
  if (!nav || names.join() === shown) return;
  shown = names.join();
  const before = new Map(links().map((link) => [nameOf(link), link]));
  for (const [name, link] of before) if (!names.includes(name)) link.remove();
  const heading = nav.querySelector("h2");
  if (heading) heading.hidden = !names.length;
  const foot = nav.querySelector(".nav-foot");
  for (const name of names) if (!before.has(name)) nav.insertBefore(made(name), following(name) ?? foot);
}

/** The first link that a new one stands before. @param {string} name */
function following(name) {
  return links().find((link) => nameOf(link) > name);
}

/** @param {string} name */
function made(name) {
  const link = document.createElement("a");
  link.className = "nav-link nav-fleet";
  link.href = `/fleets/${name}`;
  link.textContent = name;
  return link;
}

setInterval(read, PERIOD_MS);
document.addEventListener("visibilitychange", read);
