// Past debates: the list, one of them, taking one in, deleting one.

import { ask } from "./api.js";
import { announce, fault, h, sync } from "./dom.js";
import { DebateView } from "./view.js";

const ROUTE = "/moot/api/debates";

const EVERY = 2000;
const OPEN = ["running", "waiting"];

/** One page of the list. It is looked at again as long as debates of it are under way. */
export async function pastDebates(main, page) {
  document.title = "Past debates - moot";
  const [heading, list, none, pages, problem] = [h("h1", {}), h("ul", { class: "list" }), h("p", {}, "None yet."), h("nav", { "aria-label": "Pages of the list", class: "bar" }), h("div", {})];
  const update = async () => {
    const found = await ask(`${ROUTE}?page=${page}`);
    heading.textContent = `Past debates (${found.total})`;
    none.hidden = found.debates.length > 0;
    sync(list, found.debates.map((one) => ({ key: one.debate ?? one.id, state: one, make: () => rowOf(one) })));
    sync(pages, linksOf(page, found.pages));
    const due = () => (document.hidden ? setTimeout(due, EVERY) : update().catch((error) => problem.replaceChildren(fault(error.message))));
    if (found.debates.some(({ status }) => OPEN.includes(status))) setTimeout(due, EVERY);
  };
  await update();
  main.replaceChildren(h("div", {}, heading, list, none, pages, importer(problem), problem));
}

function linksOf(page, pages) {
  const link = (name, to) => ({ key: name, state: to, make: () => h("a", { href: `/moot/debates?page=${to}` }, name) });
  return [page > 1 && link("Newer", page - 1), pages > 1 && { key: "page", state: [page, pages], make: () => h("span", {}, `Page ${page} of ${pages}`) }, page < pages && link("Older", page + 1)].filter(Boolean);
}

const WORDS = { running: "under way", waiting: "waits for an answer", interrupted: "interrupted", failed: "failed", cancelled: "cancelled" };

function rowOf(one) {
  if (one.fault) return h("li", {}, h("span", { class: "bad" }, `${one.id}: ${one.fault}`), " ", remover(one.id));
  const documented = one.id !== one.debate; // else nothing is written yet
  const href = one.thread ? `/moot?thread=${one.thread}` : documented ? `/moot/debates/${one.id}` : null;
  const claim = one.claim || "(no claim)";
  const kept = one.can === "resume" && one.calls > 0 && `${one.calls} ${one.calls === 1 ? "call is" : "calls are"} kept`;
  const facts = [one.graph, one.status === "done" ? (one.answer ?? "no answer") : (WORDS[one.status] ?? one.status), kept, one.note];
  return h(
    "li",
    {},
    href ? h("a", { href, dir: "auto" }, claim) : h("span", { dir: "auto" }, claim),
    h("span", { class: "quiet" }, ` ${facts.filter(Boolean).join(" · ")} · `, h("time", { datetime: one.started_at }, new Date(one.started_at).toLocaleString())),
    one.can === "resume" && [" ", resumer(one.id, claim)],
    !documented && one.status !== "running" && [" ", remover(one.id)],
  );
}

/** Takes up a debate that was interrupted or failed, and leads to where it is watched. */
function resumer(id, claim) {
  const resume = async (event) => {
    event.target.disabled = true;
    try {
      const { thread_id: thread } = await ask(`${ROUTE}/${id}/resume`, { method: "POST" });
      location.assign(`/moot?thread=${thread}`);
    } catch (error) {
      event.target.disabled = false;
      event.target.after(fault(error.message));
    }
  };
  return h("button", { type: "button", class: "plain", "aria-label": `Go on: ${claim}`, onclick: resume }, "Go on");
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
  showPast(new DebateView(main), await ask(`${ROUTE}/${encodeURIComponent(id)}`));
}

/** A debate that is kept, in a view. */
function showPast(view, { id, document: debate, said, can }) {
  document.title = `${debate.claim || "A debate"} - moot`;
  view.show(debate, said);
  const kinds = { json: "JSON", ...(said.fault ? {} : { md: "Markdown", html: "HTML report" }) };
  if (debate.status === "done" && debate.settings.reader_summary && !debate.reader_summary && !summed.has(id)) sumUp(view, id);
  view.bar.replaceChildren(...Object.entries(kinds).map(([kind, name]) => h("a", { href: `${ROUTE}/${id}/${kind}`, download: `moot-${id}.${kind}`, class: "button" }, name)), said.fault || !debate.answer ? "" : reviewer(id), remover(id), can === "resume" ? resumer(id, debate.claim) : "");
}

const summed = new Set();

/** Has a debate summed up for the readers of its report, as its settings want. */
async function sumUp(view, id) {
  summed.add(id);
  announce("Summing the debate up for readers of its report.");
  try {
    await ask(`${ROUTE}/${id}/summary`, { method: "POST" });
    showPast(view, await ask(`${ROUTE}/${id}`));
    announce("The report has its summary for readers.");
  } catch (error) {
    view.bar.after(fault(error.message));
  }
}

/** A button that asks for a publisher and an address, and saves the debate as ClaimReview. */
function reviewer(id) {
  const name = h("input", { type: "text", required: true, autocomplete: "organization" });
  const url = h("input", { type: "url", required: true });
  const save = (event) => {
    event.preventDefault();
    const asked = new URLSearchParams({ publisher: name.value, url: url.value });
    h("a", { href: `${ROUTE}/${id}/claimreview?${asked}`, download: `moot-${id}.claimreview.json` }).click();
  };
  return h("details", { class: "review" }, h("summary", {}, "ClaimReview"), h("form", { onsubmit: save }, h("label", {}, "Publisher ", name), h("label", {}, "Page that shows the review ", url), h("button", {}, "Save")));
}

/** Shows the document that the server has written of a thread's last debate. */
export async function showKept(view, thread) {
  const kept = await ask(`${ROUTE}/${thread}`);
  history.replaceState(null, "", `/moot/debates/${kept.id}${location.hash}`);
  showPast(view, kept);
  if (document.activeElement === document.body) document.getElementById("main").focus({ preventScroll: true }); // "Stop" is gone
  announce(kept.said.end?.lines[0].text ?? kept.document.error?.detail ?? "The debate is over.");
}
