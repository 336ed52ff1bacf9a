// Elements. Texts become text nodes and nothing else: what models, evidence and people wrote is never read as markup.

/** An element with attributes (`onclick` and its like are functions) and children, of which null and false are none. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** As `h`, for drawings. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return element;
}

/** A link, where the address is one of the web; else the address as text. */
export function link(address, text = address) {
  try {
    const url = new URL(address);
    if (url.protocol === "http:" || url.protocol === "https:") {
      return h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, text);
    }
  } catch {
    // no address at all
  }
  return h("span", {}, text);
}

/** A text in which spans are marked. Offsets count code points, the end exclusive; spans may overlap. */
export function marked(text, spans) {
  if (!spans.length) return [text];
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const start = Math.max(from, at);
    if (!(start < to && to <= points.length)) continue;
    parts.push(points.slice(at, start).join(""), h("mark", {}, points.slice(start, to).join("")));
    at = to;
  }
  return [...parts, points.slice(at).join("")];
}

/** The parts of a text that were shown, each a span as above, with "[...]" where something is left out. */
export function shownOf(text, spans, shown) {
  const points = Array.from(text);
  const parts = shown.flatMap(([start, end], i) => {
    const within = spans.map(([from, to]) => [Math.max(from, start) - start, Math.min(to, end) - start]);
    return [i ? " [...] " : "", ...marked(points.slice(start, end).join(""), within)];
  });
  return [...parts, points.slice(shown.at(-1)[1]).join("").trim() && " [...]"];
}

/** A figure; what is not known is said to be unknown. */
export function figure(value, digits = 2) {
  return typeof value === "number" ? value.toFixed(digits) : "unknown";
}

const CHILDREN = new WeakMap();

/**
 * Makes a parent's children those of `items` ({key, state, make}), in their order. What has not changed stays as it is,
 * with its focus and with what is unfolded in it.
 */
export function sync(parent, items) {
  const known = CHILDREN.get(parent) ?? new Map();
  const next = new Map();
  for (const { key, state, make } of items) {
    const signature = JSON.stringify(state);
    const old = known.get(key);
    next.set(key, old?.signature === signature ? old : { signature, node: replaced(old?.node, make()) });
  }
  for (const [key, { node }] of known) if (next.get(key)?.node !== node) node.remove();
  [...next.values()].forEach(({ node }, i) => {
    if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] ?? null);
  });
  CHILDREN.set(parent, next);
}

function replaced(old, node) {
  if (!old) return node;
  const foldable = (of) => [of, ...of.querySelectorAll("details")];
  const able = (of) => [...of.querySelectorAll("a, button, input, select, summary, textarea")];
  const fresh = foldable(node);
  foldable(old).forEach((one, i) => one.open && fresh[i]?.localName === "details" && (fresh[i].open = true));
  const focused = able(old).indexOf(document.activeElement);
  old.replaceWith(node);
  if (focused >= 0) able(node)[focused]?.focus();
  return node;
}

/** Says something to those who listen to the page. */
export function announce(text) {
  document.getElementById("news").textContent = text;
}

/** A box that says what went wrong. */
export function fault(text) {
  return h("p", { class: "fault", role: "alert" }, text);
}
