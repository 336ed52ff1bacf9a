// Past checks: the list, its search, and the import of documents.

import { ask } from "./api.js";
import { chip, fault, h, icon, message, sync } from "./dom.js";
import { dueChecks } from "./recheck.js";
import { remover, resumer } from "./result.js";
import { STAGES, rated, stage } from "./stage.js";
import { PLACE, t } from "./text.js";

const ROUTE = "/moot/api/debates";
/** Milliseconds between two updates. */
const EVERY = 2000;
const OPEN = ["running", "waiting"];

/** The states by which checks are selected. */
const STATES = { "": t("All states"), open: t("Not finished"), done: t("Finished"), failed: t("Failed") };

/** Shows a page of the list, and updates the page while listed debates run or wait. */
export async function pastChecks(main, asked) {
  document.title = t("Past checks - moot");
  const page = Number(asked.get("page") ?? 1);
  const wanted = Object.fromEntries(["q", "state", "stage", "person", "rating", "site", "list"].flatMap((name) => (asked.get(name) ? [[name, asked.get(name)]] : [])));
  const selects = Object.keys(wanted).length > 0;
  const [heading, list, none] = [h("h1", {}), h("ol", { class: "checks" }), h("div", {})];
  const [pages, problem] = [h("nav", { "aria-label": t("Pages of the list"), class: "acts" }), h("div", {})];
  const search = h("input", { type: "search", id: "search", placeholder: t("Find in claims"), "aria-label": t("Find in claims"), value: wanted.q ?? "" });
  const state = h("select", { id: "state", "aria-label": t("State") }, Object.entries(STATES).map(([value, words]) => h("option", { value }, words)));
  state.value = wanted.state ?? "";
  const stages = Object.entries(STAGES).filter(([name]) => name !== "damaged").map(([value, [, words]]) => h("option", { value }, words));
  const reviewed = h("select", { id: "stage", "aria-label": t("Review") }, h("option", { value: "" }, t("Reviewed or not")), stages);
  reviewed.value = wanted.stage ?? "";
  const chooser = (id, name, all) => h("select", { id, "aria-label": name }, h("option", { value: "" }, all));
  const [person, rating] = [chooser("person", t("With"), t("Everybody")), chooser("rating", t("Our rating"), t("Any rating"))];
  const site = h("input", { type: "search", id: "site", placeholder: t("Site: example.org"), "aria-label": t("Site of the claim or of a quoted source"), value: wanted.site ?? "" });
  const find = (event) => {
    event.preventDefault();
    location.assign(address(1, { ...wanted, q: search.value.trim(), state: state.value, stage: reviewed.value, person: person.value, rating: rating.value, site: site.value.trim() }));
  };
  const choose = (select, found, chosen = "", words = {}) => {
    select.append(...[...new Set([...found, chosen])].filter(Boolean).map((one) => h("option", { value: one }, words[one] ?? one)));
    select.value = chosen;
  };
  let more = { choices: "" };
  const update = async () => {
    const listing = await ask(`${ROUTE}?${new URLSearchParams({ page, ...wanted, ...more })}`);
    if (listing.persons) {
      choose(person, listing.persons, wanted.person);
      choose(rating, Object.keys(listing.ratings), wanted.rating, listing.ratings);
      more = {};
    }
    heading.textContent = wanted.q ? t("Past checks with “{words}”", { words: wanted.q }) : t("Past checks");
    if (!listing.total) none.replaceChildren(selects ? h("p", {}, t("No check matches.") + " ", h("a", { href: "/moot/debates" }, t("Show all"))) : message(t("No checks yet"), t("Your checks are stored on this machine and listed here."), h("a", { class: "btn", href: "/moot" }, t("Check a claim"))));
    heading.hidden = search.form.hidden = !listing.total && !selects;
    sync(list, listing.debates.map((one) => (one.list ? { key: one.list.id, state: one, make: () => listOf(one, wanted) } : { key: one.debate ?? one.id, state: one, make: () => rowOf(one) })));
    sync(pages, linksOf(page, listing.pages, listing.total, wanted));
    problem.replaceChildren();
    const due = () => (document.hidden ? setTimeout(due, EVERY) : update().catch(again));
    const again = (error) => (problem.replaceChildren(fault(error.message)), setTimeout(due, EVERY));
    if (listing.debates.flatMap((one) => one.entries ?? [one]).some(({ status }) => OPEN.includes(status))) setTimeout(due, EVERY);
  };
  const form = h("form", { role: "search", class: "find", onsubmit: find }, search, state, reviewed, person, rating, site, h("button", { class: "btn slim" }, t("Find")));
  await update();
  main.replaceChildren(h("div", { class: "headrow" }, heading, form), problem, await dueChecks(), list, none, pages, importer());
}

function address(page, wanted) {
  const some = Object.entries(wanted).filter(([, value]) => value);
  return `/moot/debates?${new URLSearchParams({ ...(page > 1 && { page }), ...Object.fromEntries(some) })}`;
}

/** Checks of one list of claims, folded. */
function listOf({ list, count, entries }, wanted) {
  const links = [list.has_page && h("a", { href: `/moot/batches/${list.id}` }, t("The table of this list")), count > entries.length && h("a", { href: address(1, { ...wanted, list: list.id }) }, t("All {count} checks", { count }))].filter(Boolean);
  return h("li", { class: "of-list" }, h("details", { class: "fold" }, h("summary", {}, h("span", { class: "nb", dir: "auto" }, list.name), h("span", { class: "quiet" }, t("a list, {count} checks", { count }))), h("ol", { class: "checks" }, entries.map(rowOf)), h("p", { class: "acts small" }, links)));
}

function linksOf(page, pages, total, wanted) {
  const link = (name, to) => ({ key: name, state: to, make: () => h("a", { class: "btn slim", href: address(to, wanted) }, name) });
  const said = [total && t("{count} checks or lists", { count: total }), pages > 1 && t("page {page} of {pages}", { page, pages })].filter(Boolean).join(", ");
  return [page > 1 && link(t("Newer"), page - 1), { key: "page", state: said, make: () => h("span", { class: "quiet small" }, said) }, page < pages && link(t("Older"), page + 1)].filter(Boolean);
}

/** The latest checks, for the start page; nothing if there are none or the list cannot be loaded. */
export async function recent() {
  const listing = await ask(`${ROUTE}?page=1`).catch(() => ({ total: 0 }));
  if (!listing.total) return [];
  const rows = listing.debates.slice(0, 5).map((one) => (one.list ? listOf(one, {}) : rowOf(one)));
  return [h("section", { class: "recent", "aria-labelledby": "recent" }, h("div", { class: "head" }, h("h2", { id: "recent" }, t("Recent checks")), h("a", { class: "small", href: "/moot/debates" }, t("All {total}", { total: listing.total }))), h("ol", { class: "checks" }, rows))];
}

const WORDS = { running: t("under way"), waiting: t("waits for your answer"), interrupted: t("interrupted"), failed: t("has failed"), cancelled: t("cancelled") };
/** Display names of systems. */
export const METHODS = { rag: t("Quick check"), tool_mad: t("Debate"), proclaim: t("Trial"), find_claims: t("Claims of a text") };

/** A model's name without its provider. A fake model's name is whole, because the rest is only a number. */
export function modelName(model) {
  return model.startsWith("fake:") ? model : model.split(":").slice(1).join(":");
}

function rowOf(one) {
  if (one.fault) return h("li", {}, h("span", { class: "bad" }, icon("warn"), " " + t("Damaged")), h("span", {}, `${one.id}: ${one.fault}`), remover(one.id));
  const documented = one.id !== one.debate; // otherwise, the debate has no document yet
  const href = one.thread ? `/moot?thread=${one.thread}` : documented ? `/moot/debates/${one.id}` : null;
  const claim = one.claim || t("(no claim)");
  const kept = one.can === "resume" && one.calls > 0 && t("{count} calls are stored", { count: one.calls });
  const at = h("time", { datetime: one.started_at }, when(new Date(one.started_at)));
  const facts = [METHODS[one.graph] ?? one.graph.replaceAll("_", " "), one.demonstration && t("demonstration"), one.owner && t("by {name}", { name: one.owner }), kept, one.note].filter(Boolean);
  return h(
    "li",
    {},
    h("span", { class: "standing" }, standing(one)),
    href ? h("a", { class: "claim", href, dir: "auto" }, claim) : h("span", { class: "claim", dir: "auto" }, claim),
    h("span", { class: "meta" }, facts.join(" · "), " · ", at, one.can === "resume" && [" ", resumer(one.id, claim)], !documented && one.status !== "running" && [" ", remover(one.id)]),
  );
}

/** A check's rating or answer with the stage of its review, or its status. */
function standing({ status, chip: answer, review }) {
  if (status === "done") return judged(answer ?? { kind: "non", word: t("No verdict") }, review);
  return h("span", { class: status === "failed" ? "cell bad" : OPEN.includes(status) ? "cell on" : "cell" }, icon(status === "running" ? "run" : status === "failed" || status === "waiting" ? "warn" : "non"), ` ${WORDS[status] ?? status}`);
}

/** An editor's rating with the machine's verdict beside it or, without one, the machine's verdict; then the stage. */
export function judged(machine, review) {
  const pill = review && [" ", stage(review.stage)];
  if (review?.rating) return [rated(review.chip), pill, h("small", { class: "quiet" }, t("Machine: {verdict}", { verdict: t(machine.word) }))];
  if (review?.was) return [h("span", { class: "quiet small" }, t("Was “{rating}”", { rating: review.was })), pill];
  return [chip(machine), pill];
}

/** A time in words. */
export function when(date) {
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString(PLACE, { hour: "2-digit", minute: "2-digit" });
  return today ? t("today, {time}", { time }) : t("{date}, {time}", { date: date.toLocaleDateString(PLACE, { day: "numeric", month: "long", year: "numeric" }), time });
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
  return h("details", { class: "fold import" }, h("summary", {}, h("span", { class: "nb" }, t("Import a check from a file")), h("span", { class: "quiet" }, t("a document that moot verify --out wrote"))), h("div", { class: "inside" }, h("div", { class: "field" }, h("label", { for: "import" }, t("Import a document (JSON)")), input), problem));
}
