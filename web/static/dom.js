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

/** The drawing of a kind of answer (sup, ref, nee, con, non), of a warning or of work; words always stand beside it. */
export function icon(kind) {
  return svg("svg", { class: kind === "run" ? "i spins" : "i", "aria-hidden": "true" }, svg("use", { href: `#i-${kind}` }));
}

/** An answer: shape, tint and word. */
export function chip({ kind, word }) {
  return h("span", { class: `chip ${kind}`, dir: "auto" }, kind !== "text" && icon(kind), word);
}

/** A text in parts, with numbers of sources ([[text, number]]). */
export function spoken(parts) {
  return parts.map(([text, number]) => [text, number !== null && h("a", { class: "cite", href: `#s${number}`, "aria-label": `Source ${number}` }, `[${number}]`)]);
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

/** Lets the browser do what waits: a click, a key, a frame. What takes long is done in slices between which it can. */
export function breath() {
  return new Promise((resolve) => setTimeout(resolve));
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

/** What went wrong, in a sentence. */
export function fault(text) {
  return h("p", { class: "fault", role: "alert" }, icon("warn"), ` ${text}`);
}

/** Something that stands in place of what was expected: a heading, a sentence, at most two things to do. */
export function message(heading, text, ...acts) {
  const more = acts.flat().filter(Boolean);
  return h("section", { class: "msg" }, h("h1", {}, heading), text && h("p", {}, text), more.length > 0 && h("div", { class: "acts" }, more));
}

/** A page that could not be shown: why, and what to do. */
export function stuck(main, error) {
  const again = h("button", { type: "button", class: "btn main", onclick: () => location.reload() }, "Try again");
  const shown = message(error.status === 0 ? "The server does not answer" : "This cannot be shown", null, again, h("a", { class: "btn", href: "/moot" }, "New check"));
  shown.firstChild.after(h("p", { role: "alert" }, error.message));
  main.replaceChildren(shown);
}
