/** Virtual scrolling: a long table keeps only the rows near the window; the rest is two empty rows of the right height. */
import { html, useEffect, useRef, useState } from "../html.js";

const LONG = 80;
const SPARE = 12;
/** There each row is a card (css/narrow.css), of its own height: cards are only ever added, as one scrolls down. */
const cards = matchMedia("(max-width: 640px)");

/**
 * `<tbody>` of many rows of about the same height.
 * @param {{items: any[], height: number, columns: number, row: (item: any) => any}} props
 */
export function VirtualRows({ items, height, columns, row }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const [range, setRange] = useState([0, LONG]);
  const long = items.length > LONG;

  useEffect(() => {
    if (!long) return undefined;
    const more = () => {
      const near = (body.current?.getBoundingClientRect().bottom ?? 0) < 2 * innerHeight;
      setRange((/** @type {number[]} */ old) => (near && old[1] < items.length ? [0, old[1] + 2 * SPARE] : old[0] ? [0, old[1]] : old));
    };
    const look = () => {
      if (cards.matches) return more();
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / height) - SPARE);
      const to = Math.ceil((innerHeight - top) / height) + SPARE;
      return setRange((/** @type {number[]} */ old) => (old[0] === from && old[1] === to ? old : [from, to]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [long, height, items.length]);

  useEffect(() => watchFit(/** @type {HTMLElement} */ (body.current)), []);

  const [from, to] = long ? [range[0], Math.min(items.length, range[1])] : [0, items.length];
  return html`<tbody ref=${body}>
    ${long && html`<${Gap} rows=${from} height=${height} columns=${columns} />`}
    ${items.slice(from, to).map(row)}
    ${long && html`<${Gap} rows=${items.length - to} height=${height} columns=${columns} />`}
  </tbody>`;
}

/** Marks the box around the table while all of it fits in there. @param {HTMLElement} body @returns {() => void} */
function watchFit(body) {
  const table = body.closest("table");
  const box = table?.closest(".scroll");
  if (!table || !box) return () => {};
  const sizes = new ResizeObserver(() => box.classList.toggle("fits", table.offsetWidth <= box.clientWidth));
  sizes.observe(table);
  sizes.observe(box);
  return () => sizes.disconnect();
}

/** @param {{rows: number, height: number, columns: number}} props */
function Gap({ rows, height, columns }) {
  return html`<tr class="gap" aria-hidden="true"><td colspan=${columns} style=${{ height: `${Math.max(0, rows) * height}px` }}></td></tr>`;
}
