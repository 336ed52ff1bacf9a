// Past checks: the list, its search, and the import of documents.

import { ask } from "./api.js";
import { chip, fault, h, icon, message, sync } from "./dom.js";
import { remover, resumer } from "./result.js";

const ROUTE = "/moot/api/debates";
/** Milliseconds between two updates. */
const EVERY = 2000;
const OPEN = ["running", "waiting"];

/** Shows a page of the list, and updates the page while listed debates run or wait. */
export async function pastChecks(main, asked) {
  document.title = "Past checks - moot";
  const [page, words] = [Number(asked.get("page") ?? 1), asked.get("q") ?? ""];
  const [heading, list, none] = [h("h1", {}), h("ol", { class: "checks" }), h("div", {})];
  const [pages, problem] = [h("nav", { "aria-label": "Pages of the list", class: "acts" }), h("div", {})];
  const search = h("input", { type: "search", id: "search", placeholder: "Find in claims", "aria-label": "Find in claims", value: words });
  const find = (event) => {
    event.preventDefault();
    location.assign(address(1, search.value.trim()));
  };
  const update = async () => {
    const listing = await ask(`${ROUTE}?${new URLSearchParams({ page, q: words })}`);
    heading.textContent = words ? `Past checks with “${words}”` : "Past checks";
    if (!listing.total) none.replaceChildren(words ? h("p", {}, "No claim contains these words.") : message("No checks yet", "Your checks are stored on this machine and listed here.", h("a", { class: "btn", href: "/moot" }, "Check a claim")));
    heading.hidden = search.form.hidden = !listing.total && !words;
    sync(list, listing.debates.map((one) => ({ key: one.debate ?? one.id, state: one, make: () => rowOf(one) })));
    sync(pages, linksOf(page, listing.pages, listing.total, words));
    problem.replaceChildren();
    const due = () => (document.hidden ? setTimeout(due, EVERY) : update().catch(again));
    const again = (error) => (problem.replaceChildren(fault(error.message)), setTimeout(due, EVERY));
    if (listing.debates.some(({ status }) => OPEN.includes(status))) setTimeout(due, EVERY);
  };
  const form = h("form", { role: "search", class: "find", onsubmit: find }, search, h("button", { class: "btn slim" }, "Find"));
  await update();
  main.replaceChildren(h("div", { class: "headrow" }, heading, form), problem, list, none, pages, importer());
}

function address(page, words) {
  return `/moot/debates?${new URLSearchParams({ ...(page > 1 && { page }), ...(words && { q: words }) })}`;
}

function linksOf(page, pages, total, words) {
  const link = (name, to) => ({ key: name, state: to, make: () => h("a", { class: "btn slim", href: address(to, words) }, name) });
  const said = total ? `${total} ${total === 1 ? "check" : "checks"}${pages > 1 ? `, page ${page} of ${pages}` : ""}` : "";
  return [page > 1 && link("Newer", page - 1), { key: "page", state: said, make: () => h("span", { class: "quiet small" }, said) }, page < pages && link("Older", page + 1)].filter(Boolean);
}

/** The latest checks, for the start page; nothing if there are none or the list cannot be loaded. */
export async function recent() {
  const listing = await ask(`${ROUTE}?page=1`).catch(() => ({ total: 0 }));
  if (!listing.total) return [];
  const rows = listing.debates.slice(0, 5).map(rowOf);
  return [h("section", { class: "recent", "aria-labelledby": "recent" }, h("div", { class: "head" }, h("h2", { id: "recent" }, "Recent checks"), h("a", { class: "small", href: "/moot/debates" }, `All ${listing.total}`)), h("ol", { class: "checks" }, rows))];
}

const WORDS = { running: "under way", waiting: "waits for your answer", interrupted: "interrupted", failed: "failed", cancelled: "cancelled" };
/** Display names of systems. */
export const METHODS = { rag: "Quick check", tool_mad: "Debate", proclaim: "Trial", find_claims: "Claims of a text" };

/** A model's name without its provider. A fake model's name is whole, because the rest is only a number. */
export function modelName(model) {
  return model.startsWith("fake:") ? model : model.split(":").slice(1).join(":");
}

function rowOf(one) {
  if (one.fault) return h("li", {}, h("span", { class: "bad" }, icon("warn"), " Damaged"), h("span", {}, `${one.id}: ${one.fault}`), remover(one.id));
  const documented = one.id !== one.debate; // otherwise, the debate has no document yet
  const href = one.thread ? `/moot?thread=${one.thread}` : documented ? `/moot/debates/${one.id}` : null;
  const claim = one.claim || "(no claim)";
  const kept = one.can === "resume" && one.calls > 0 && `${one.calls} ${one.calls === 1 ? "call is" : "calls are"} stored`;
  const at = h("time", { datetime: one.started_at }, when(new Date(one.started_at)));
  const facts = [METHODS[one.graph] ?? one.graph.replaceAll("_", " "), kept, one.note].filter(Boolean);
  return h(
    "li",
    {},
    h("span", {}, standing(one)),
    href ? h("a", { href, dir: "auto" }, claim) : h("span", { dir: "auto" }, claim),
    h("span", { class: "meta" }, facts.join(" · "), " · ", at, one.can === "resume" && [" ", resumer(one.id, claim)], !documented && one.status !== "running" && [" ", remover(one.id)]),
  );
}

/** A check's answer, or its status. */
function standing({ status, chip: answer }) {
  if (status === "done") return chip(answer ?? { kind: "non", word: "No verdict" });
  return h("span", { class: status === "failed" ? "cell bad" : OPEN.includes(status) ? "cell on" : "cell" }, icon(status === "running" ? "run" : status === "failed" || status === "waiting" ? "warn" : "non"), ` ${WORDS[status] ?? status}`);
}

/** A time in words. */
export function when(date) {
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return today ? `today, ${time}` : `${date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })}, ${time}`;
}

function importer() {
  const problem = h("div", {});
  const input = h("input", { type: "file", id: "import", accept: ".json,application/json" });
  input.addEventListener("change", async () => {
    try {
      const { id } = await ask(`${ROUTE}/import`, { raw: input.files[0] });
      location.assign(`/moot/debates/${id}`);
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      input.value = "";
    }
  });
  return h("details", { class: "fold import" }, h("summary", {}, h("span", { class: "nb" }, "Import a check from a file"), h("span", { class: "quiet" }, "a document that moot verify --out wrote")), h("div", { class: "inside" }, h("div", { class: "field" }, h("label", { for: "import" }, "Import a document (JSON)"), input), problem));
}
