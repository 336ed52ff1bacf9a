// The actions for a debate whose report the server has put into the page.

import { ask } from "./api.js";
import { branchForm } from "./branch.js";
import { announce, fault, h } from "./dom.js";
import { graphOf } from "./drawing.js";
import { rechecker } from "./recheck.js";
import { t } from "./text.js";

const ROUTE = "/moot/api/debates";
const KINDS = { html: t("Report (HTML)"), md: t("Markdown"), json: t("Everything (JSON)") };

/** Shows the actions, adds drawings that need a script, and requests a missing summary; returns when that is there. */
export function showActions() {
  const bar = document.getElementById("tools");
  if (!bar) return;
  const { id, can, thread, graph, stage, sumUp } = bar.dataset;
  const claim = document.querySelector("h1").textContent;
  const problem = h("div", {});
  const slot = h("div", {});
  const chosen = new URLSearchParams(location.search).get("language") ?? "";
  const files = Object.entries(KINDS).filter(([kind]) => can !== "file" || kind === "json");
  const saving = h("details", { class: "menu" }, h("summary", { class: "btn slim" }, t("Save")), h("div", {}, files.map(([kind, name]) => h("a", { href: `${ROUTE}/${id}/${kind}${chosen && `?language=${encodeURIComponent(chosen)}`}`, download: `moot-${id}.${kind}` }, name)), can !== "file" && stage !== "damaged" && reviewer(id, stage)));
  const back = thread && can !== "file" && h("button", { type: "button", class: "btn slim", onclick: () => branch(thread, id, slot, problem) }, t("Repeat a step with other evidence"));
  bar.replaceChildren(
    h("div", { class: "acts" }, can === "resume" && resumer(id, claim), can === "answer" && h("a", { class: "btn slim main", href: `/moot?thread=${thread}` }, t("Answer its question")), saving, can !== "file" && h("a", { class: "btn slim", href: `/moot?again=${id}` }, t("Check again, with changes")), !can && rechecker(`${ROUTE}/${id}`, slot), back, can !== "file" && languageOf(chosen), remover(id), document.getElementById("review") && h("a", { class: "btn slim to-review", href: "#review" }, t("Review"))),
    problem,
    slot,
  );
  for (const number of document.querySelectorAll(".src > li[id] > .n")) number.replaceWith(h("a", { class: "n", href: `#${number.parentElement.id}`, "aria-label": t("Link to passage {number}", { number: number.textContent }) }, number.textContent));
  if (graph === "cortex_debate") draw(id).catch((error) => problem.append(fault(error.message)));
  return sumUp ? requestSummary(id, problem) : null;
}

/** A choice of the report's language; by default, it is the claim's. */
function languageOf(chosen) {
  const select = document.getElementById("language").cloneNode(true);
  select.id = "report-language";
  select.className = "btn slim";
  select.setAttribute("aria-label", t("Language of the report"));
  select.options[0].text = t("In the claim’s language");
  select.value = chosen;
  select.addEventListener("change", () => location.assign(`${location.pathname}${select.value && `?language=${select.value}`}`));
  return select;
}

/** Adds the debating graph to the section of each round. */
async function draw(id) {
  const { document: debate } = await ask(`${ROUTE}/${id}`);
  for (const entry of debate.graphs ?? []) {
    const fold = document.querySelector(`.record .fold[data-round="${Number(entry.round)}"]`);
    fold?.querySelector(".turns")?.before(graphOf(entry) ?? "");
  }
}

/** Requests the summary of a debate, and shows it. */
async function requestSummary(id, problem) {
  announce(t("A summary of the debate is being written."));
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
  return h("button", { type: "button", class: "btn slim main", "aria-label": t("Go on: {claim}", { claim }), onclick: resume }, t("Go on"));
}

export function remover(id) {
  return removing(`${ROUTE}/${id}`, "/moot/debates");
}

/** A button that deletes the resource at an address when it is pressed a second time, and then opens another page. */
export function removing(address, then) {
  const remove = async ({ target }) => {
    if (target.textContent === t("Delete")) {
      target.textContent = t("Delete for good");
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
  return h("button", { type: "button", class: "btn slim", onclick: remove, onblur: ({ target }) => !target.disabled && (target.textContent = t("Delete")) }, t("Delete"));
}

/** A form for a publisher and an address, which saves the check as ClaimReview; a withdrawn check has none. */
function reviewer(id, stage) {
  const summary = h("summary", {}, t("ClaimReview, for other tools"));
  if (stage === "withdrawn") return h("details", { class: "review" }, summary, h("p", { class: "quiet" }, t("This check was withdrawn, so it has none.")));
  const name = h("input", { type: "text", required: true, autocomplete: "organization" });
  const url = h("input", { type: "url", required: true });
  const isDecided = stage === "approved" || stage === "corrected";
  const unreviewed = !isDecided && h("label", {}, h("input", { type: "checkbox", required: true }), " " + t("Nobody has approved it: it names the software as its author."));
  const save = (event) => {
    event.preventDefault();
    const asked = new URLSearchParams({ publisher: name.value, url: url.value, ...(!isDecided && { unreviewed: "" }) });
    h("a", { href: `${ROUTE}/${id}/claimreview?${asked}`, download: `moot-${id}.claimreview.json` }).click();
  };
  return h("details", { class: "review" }, summary, h("form", { onsubmit: save }, h("label", {}, t("Publisher") + " ", name), h("label", {}, t("Page that shows the review") + " ", url), unreviewed, h("button", { class: "btn slim" }, t("Save ClaimReview"))));
}
