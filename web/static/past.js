// Past debates: the list, one of them, taking one in, deleting one.

import { ask } from "./api.js";
import { announce, fault, h } from "./dom.js";
import { DebateView } from "./view.js";

const ROUTE = "/moot/api/debates";

/** One page of the list. */
export async function pastDebates(main, page) {
  const [found, going] = await Promise.all([ask(`${ROUTE}?page=${page}`), page === 1 ? underWay() : null]);
  document.title = "Past debates - moot";
  const problem = h("div", {});
  const rows = found.debates.map((one) => rowOf(one));
  const pages = h("nav", { "aria-label": "Pages of the list", class: "bar" }, page > 1 && h("a", { href: `/moot/debates?page=${page - 1}` }, "Newer"), found.pages > 1 && h("span", {}, `Page ${page} of ${found.pages}`), page < found.pages && h("a", { href: `/moot/debates?page=${page + 1}` }, "Older"));
  const list = rows.length ? h("ul", { class: "list" }, rows) : h("p", {}, "None yet.");
  main.replaceChildren(h("div", {}, h("h1", {}, `Past debates (${found.total})`), going, list, pages, importer(problem), problem));
}

/** Debates that this server holds, and that are not over. */
async function underWay() {
  const threads = await Promise.all(["busy", "interrupted"].map((status) => ask("/threads/search", { body: { status, limit: 50 } })));
  const rows = await Promise.all(threads.flat().filter((one) => one.status === "busy" || Object.keys(one.interrupts ?? {}).length).map(rowUnderWay));
  if (!rows.length) return null;
  return h("section", { "aria-labelledby": "going" }, h("h2", { id: "going" }, "Under way"), h("ul", { class: "list" }, rows), h("h2", {}, "Over"));
}

async function rowUnderWay({ thread_id: id, metadata, status }) {
  const { values } = await ask(`/threads/${id}/state`); // a thread that is at work has none of its own
  return h("li", {}, h("a", { href: `/moot?thread=${id}`, dir: "auto" }, values?.claim || "(no claim)"), h("span", { class: "quiet" }, ` ${metadata.graph_id} · ${status === "busy" ? "goes on" : "waits for an answer"}`));
}

function rowOf(one) {
  const href = `/moot/debates/${one.id}`;
  if (one.fault) return h("li", {}, h("span", { class: "bad" }, `${one.id}: ${one.fault}`), " ", remover(one.id));
  const when = new Date(one.started_at);
  return h("li", {}, h("a", { href, dir: "auto" }, one.claim || "(no claim)"), h("span", { class: "quiet" }, ` ${one.graph} · ${one.status === "done" ? one.answer ?? "no answer" : one.status} · `, h("time", { datetime: one.started_at }, when.toLocaleString())));
}

function importer(problem) {
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
  return h("div", { class: "field" }, h("label", { for: "import" }, "Take in a document that `moot verify --out` wrote"), input);
}

function remover(id) {
  const remove = async (event) => {
    if (!confirm("Delete this debate for good?")) return;
    event.target.disabled = true;
    try {
      await ask(`${ROUTE}/${id}`, { method: "DELETE" });
      location.assign("/moot/debates");
    } catch (error) {
      event.target.after(fault(error.message));
    }
  };
  return h("button", { type: "button", class: "plain", onclick: remove }, "Delete");
}

/** One debate. */
export async function pastDebate(main, id) {
  const { document: debate, said } = await ask(`${ROUTE}/${encodeURIComponent(id)}`);
  showPast(new DebateView(main), id, debate, said);
}

/** A debate that is kept, in a view. */
export function showPast(view, id, debate, said) {
  document.title = `${debate.claim || "A debate"} - moot`;
  view.show(debate, said);
  const kinds = { json: "JSON", ...(said.fault ? {} : { md: "Markdown", html: "HTML report" }) };
  view.bar.replaceChildren(...Object.entries(kinds).map(([kind, name]) => h("a", { href: `${ROUTE}/${id}/${kind}`, download: `moot-${id}.${kind}`, class: "button" }, name)), remover(id));
}

/** Keeps the debate of a thread, and shows what was kept. */
export async function keep(view, thread) {
  const { id } = await ask(ROUTE, { body: { thread_id: thread } });
  const { document: debate, said } = await ask(`${ROUTE}/${id}`);
  history.replaceState(null, "", `/moot/debates/${id}${location.hash}`);
  showPast(view, id, debate, said);
  if (document.activeElement === document.body) document.getElementById("main").focus({ preventScroll: true }); // "Stop" is gone
  announce(said.end?.lines[0].text ?? debate.error?.detail ?? "The debate is over.");
}
