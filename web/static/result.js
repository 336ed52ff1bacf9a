// The actions for a debate whose report the server has put into the page.

import { ask } from "./api.js";
import { branchForm } from "./branch.js";
import { announce, fault, h } from "./dom.js";
import { graphOf } from "./drawing.js";

const ROUTE = "/moot/api/debates";
const KINDS = { html: "Report (HTML)", md: "Markdown", json: "Everything (JSON)" };

/** Shows the actions, adds drawings that need a script, and requests a missing summary. */
export function showActions() {
  const bar = document.getElementById("tools");
  if (!bar) return;
  const { id, can, thread, graph, sumUp } = bar.dataset;
  const claim = document.querySelector("h1").textContent;
  const problem = h("div", {});
  const slot = h("div", {});
  const files = Object.entries(KINDS).filter(([kind]) => can !== "file" || kind === "json");
  const saving = h("details", { class: "menu" }, h("summary", { class: "btn slim" }, "Save"), h("div", {}, files.map(([kind, name]) => h("a", { href: `${ROUTE}/${id}/${kind}`, download: `moot-${id}.${kind}` }, name)), can !== "file" && reviewer(id)));
  const back = thread && can !== "file" && h("button", { type: "button", class: "btn slim", onclick: () => branch(thread, id, slot, problem) }, "Repeat a step with other evidence");
  bar.replaceChildren(
    h("div", { class: "acts" }, can === "resume" && resumer(id, claim), can === "answer" && h("a", { class: "btn slim main", href: `/moot?thread=${thread}` }, "Answer its question"), saving, can !== "file" && h("a", { class: "btn slim", href: `/moot?again=${id}` }, "Check again, with changes"), back, remover(id)),
    problem,
    slot,
  );
  if (graph === "cortex_debate") draw(id).catch((error) => problem.append(fault(error.message)));
  if (sumUp) requestSummary(id, problem);
}

/** Adds the debating graph to the section of each round. */
async function draw(id) {
  const { document: debate } = await ask(`${ROUTE}/${id}`);
  for (const entry of debate.graphs ?? []) {
    const fold = [...document.querySelectorAll(".record .fold")].find((one) => one.querySelector("summary .nb").textContent === `Round ${entry.round}`);
    fold?.querySelector(".turns")?.before(graphOf(entry) ?? "");
  }
}

/** Requests the summary of a debate, and shows it. */
async function requestSummary(id, problem) {
  announce("A summary of the debate is being written.");
  try {
    await ask(`${ROUTE}/${id}/summary`, { method: "POST" });
    if ((await ask(`${ROUTE}/${id}`)).document.reader_summary) location.reload();
  } catch (error) {
    problem.append(fault(error.message));
  }
}

/** Offers to continue the debate from an earlier step with other evidence. */
async function branch(thread, id, slot, problem) {
  try {
    const { document: debate } = await ask(`${ROUTE}/${id}`);
    const form = await branchForm(thread, async (checkpoint) => {
      const body = { assistant_id: debate.graph, context: debate.settings, checkpoint, stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, multitask_strategy: "reject" };
      await ask(`/threads/${thread}/runs`, { body });
      location.assign(`/moot?thread=${thread}`);
    });
    slot.replaceChildren(form);
    form.querySelector("h2")?.focus();
  } catch (error) {
    problem.replaceChildren(fault(error.message));
  }
}

/** A button that resumes an interrupted or failed debate, and opens its live view. */
export function resumer(id, claim) {
  const resume = async ({ target }) => {
    target.disabled = true;
    try {
      const { thread_id: thread } = await ask(`${ROUTE}/${id}/resume`, { method: "POST" });
      location.assign(`/moot?thread=${thread}`);
    } catch (error) {
      target.disabled = false;
      target.after(fault(error.message));
    }
  };
  return h("button", { type: "button", class: "btn slim main", "aria-label": `Go on: ${claim}`, onclick: resume }, "Go on");
}

export function remover(id) {
  return removing(`${ROUTE}/${id}`, "/moot/debates");
}

/** A button that deletes the resource at an address when it is pressed a second time, and then opens another page. */
export function removing(address, then) {
  const remove = async ({ target }) => {
    if (target.textContent === "Delete") {
      target.textContent = "Delete for good";
      return;
    }
    target.disabled = true;
    try {
      await ask(address, { method: "DELETE" });
      location.assign(then);
    } catch (error) {
      target.disabled = false;
      target.after(fault(error.message));
    }
  };
  return h("button", { type: "button", class: "btn slim", onclick: remove, onblur: ({ target }) => !target.disabled && (target.textContent = "Delete") }, "Delete");
}

/** A form for a publisher and an address, which saves the debate as ClaimReview. */
function reviewer(id) {
  const name = h("input", { type: "text", required: true, autocomplete: "organization" });
  const url = h("input", { type: "url", required: true });
  const save = (event) => {
    event.preventDefault();
    const asked = new URLSearchParams({ publisher: name.value, url: url.value });
    h("a", { href: `${ROUTE}/${id}/claimreview?${asked}`, download: `moot-${id}.claimreview.json` }).click();
  };
  return h("details", { class: "review" }, h("summary", {}, "ClaimReview, for search engines"), h("form", { onsubmit: save }, h("label", {}, "Publisher ", name), h("label", {}, "Page that shows the review ", url), h("button", { class: "btn slim" }, "Save ClaimReview")));
}
