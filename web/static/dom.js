// DOM elements. Texts become text nodes only: texts from models, evidence and people are never parsed as markup.

import { t } from "./text.js";

/** An element with attributes and children; null and false are skipped. A function such as `onclick` is an event handler. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** As `h`, for SVG elements. */
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

/** Facts in a row with dots between them, each in its own direction; empty ones are left out. */
export function dotted(facts) {
  return facts.filter(Boolean).map((one, i) => [i > 0 && " · ", h("bdi", {}, one)]);
}

/** A link if the address is http(s), else the address as text. */
export function link(address, text = address) {
  try {
    const url = new URL(address);
    if (url.protocol === "http:" || url.protocol === "https:") {
      return h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, text);
    }
  } catch {
    // not a URL
  }
  return h("span", {}, text);
}

/** The icon of a kind of answer (sup, ref, nee, con, non), of a warning (warn) or of work (run); always with a text. */
export function icon(kind) {
  return svg("svg", { class: kind === "run" ? "i spins" : "i", "aria-hidden": "true" }, svg("use", { href: `#i-${kind}` }));
}

/** An answer as an icon, a colour and a word. Stored words are in English; those of the kind `text` are not ours. */
export function chip({ kind, word }) {
  const [, own, more] = /^(.*?)(?: \((.+)\))?$/s.exec(word);
  return h("span", { class: `chip ${kind}`, dir: "auto" }, kind === "text" ? word : [icon(kind), t(own) + (more ? ` (${t(more)})` : "")]);
}

/** A text with citations; the parts are [[text, source number or null]]. */
export function spoken(parts) {
  return parts.map(([text, number]) => [text, number !== null && h("a", { class: "cite", href: `#s${number}`, "aria-label": t("Source {number}", { number }) }, `[${number}]`)]);
}

/** A number, or "unknown". */
export function figure(value, digits = 2) {
  return typeof value === "number" ? value.toFixed(digits) : t("unknown");
}

const CHILDREN = new WeakMap();

/**
 * Makes a parent's children match `items` ({key, state, make}), in their order. Unchanged children stay in the DOM, with
 * their focus and unfolded parts.
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

/** Milliseconds of work after which the browser gets a turn. */
const A_SLICE = 10;

/** For long work: a function to await between steps, so that the browser can handle clicks, keys and frames. */
export function slices() {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < A_SLICE) return;
    await new Promise((resolve) => setTimeout(resolve));
    began = performance.now();
  };
}

/** Puts a new node in the place of the old one, if there is one, with the same open folds and the same focus. */
function replaced(old, node) {
  if (!old) return node;
  const foldable = (of) => [of, ...of.querySelectorAll("details")];
  const focusable = (of) => [...of.querySelectorAll("a, button, input, select, summary, textarea")];
  const fresh = foldable(node);
  foldable(old).forEach((one, i) => one.open && fresh[i]?.localName === "details" && (fresh[i].open = true));
  const focused = focusable(old).indexOf(document.activeElement);
  old.replaceWith(node);
  if (focused >= 0) focusable(node)[focused]?.focus();
  return node;
}

/** Announces a text to screen readers. */
export function announce(text) {
  document.getElementById("news").textContent = text;
}

/** Changes the address for the next view; going back reloads the earlier page from the server. */
export function move(address) {
  history.pushState(null, "", address);
  addEventListener("popstate", () => location.reload(), { once: true });
}

/** An error message. */
export function fault(text) {
  return h("p", { class: "fault", role: "alert" }, icon("warn"), ` ${text}`);
}

/** A message in place of the expected content: a heading, a sentence, and at most two actions. */
export function message(heading, text, ...acts) {
  const more = acts.flat().filter(Boolean);
  return h("section", { class: "msg" }, h("h1", {}, heading), text && h("p", {}, text), more.length > 0 && h("div", { class: "acts" }, more));
}

/** The page after an error: the reason, and what to do. */
export function showError(main, error) {
  const again = h("button", { type: "button", class: "btn main", onclick: () => location.reload() }, t("Try again"));
  const shown = message(error.status === 0 ? t("The server does not answer") : t("This page cannot be shown"), null, again, h("a", { class: "btn", href: "/moot" }, t("New check")));
  shown.firstChild.after(h("p", { role: "alert" }, error.message));
  main.replaceChildren(shown);
}
