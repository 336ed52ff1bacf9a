// Past debates: the list, one of them, taking one in, deleting one.

import { ask } from "./api.js";
import { announce, fault, h } from "./dom.js";
import { DebateView } from "./view.js";

const ROUTE = "/moot/api/debates";

/** One page of the list. */
export async function pastDebates(main, page) {
  const found = await ask(`${ROUTE}?page=${page}`);
  document.title = "Past debates - moot";
  const problem = h("div", {});
  const rows = found.debates.map((one) => rowOf(one));
  const pages = h("nav", { "aria-label": "Pages of the list", class: "bar" }, page > 1 && h("a", { href: `/moot/debates?page=${page - 1}` }, "Newer"), found.pages > 1 && h("span", {}, `Page ${page} of ${found.pages}`), page < found.pages && h("a", { href: `/moot/debates?page=${page + 1}` }, "Older"));
  main.replaceChildren(h("h1", {}, `Past debates (${found.total})`), rows.length ? h("ul", { class: "list" }, rows) : h("p", {}, "None yet."), pages, importer(problem), problem);
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
    await ask(`${ROUTE}/${id}`, { method: "DELETE" });
    location.assign("/moot/debates");
  };
  return h("button", { type: "button", class: "plain", onclick: remove }, "Delete");
}

/** One debate. */
export async function pastDebate(main, id) {
  const { document: debate, end } = await ask(`${ROUTE}/${encodeURIComponent(id)}`);
  showPast(new DebateView(main), id, debate, end);
}

/** A debate that is kept, in a view. */
export function showPast(view, id, debate, end) {
  document.title = `${debate.claim || "A debate"} - moot`;
  view.show(debate, end);
  const kinds = { json: "JSON", md: "Markdown", html: "HTML report" };
  view.bar.replaceChildren(...Object.entries(kinds).map(([kind, name]) => h("a", { href: `${ROUTE}/${id}/${kind}`, download: `moot-${id}.${kind}`, class: "button" }, name)), remover(id));
}

/** Keeps the debate of a thread, and shows what was kept. */
export async function keep(view, thread) {
  const { id } = await ask(ROUTE, { body: { thread_id: thread } });
  const { document: debate, end } = await ask(`${ROUTE}/${id}`);
  history.replaceState(null, "", `/moot/debates/${id}${location.hash}`);
  showPast(view, id, debate, end);
  announce(end?.lines?.[0]?.text ?? debate.error?.detail ?? "The debate is over.");
}
