// Looking again at a check: what became of the pages that it cites, and a new debate if a passage that decides is gone.

import { ask } from "./api.js";
import { announce, fault, h, icon } from "./dom.js";
import { PLACE, t } from "./text.js";

const FOUND = {
  unchanged: t("unchanged"),
  text_changed: t("the page has changed, the quote is still there"),
  passage_gone: t("the quote is not on the page any more"),
  page_gone: t("the page is gone"),
  retracted: t("the work was retracted"),
  not_read: t("could not be read, so nothing is known"),
};
const BAD = ["passage_gone", "page_gone", "retracted"];

/** A button that reads the pages of the check at `address` again, and shows in `slot` what became of them. */
export function rechecker(address, slot) {
  const look = async ({ target }) => {
    target.disabled = true;
    announce(t("The cited pages are being read again."));
    try {
      const found = await ask(`${address}/recheck`, { method: "POST" });
      slot.replaceChildren(shown(address, found));
      slot.querySelector("h2").focus();
      document.getElementById("review")?.dispatchEvent(new Event("changed"));
    } catch (error) {
      slot.replaceChildren(fault(error.message));
    }
    target.disabled = false;
  };
  return h("button", { type: "button", class: "btn slim", onclick: look }, t("Read its pages again"));
}

function shown(address, { findings, unread, fault: unknown, changed, expected }) {
  const none = !findings.length && h("p", {}, t("This check quotes no web page."));
  const others = unread > 0 && h("p", { class: "small quiet" }, t("{count} quotes are from no web page", { count: unread }));
  return h("section", { class: "msg", "aria-labelledby": "again" }, h("h2", { id: "again", tabindex: "-1" }, t("The cited pages today")), none, h("ul", {}, findings.map(line)), others, unknown && h("p", { class: "bad" }, unknown), changed ? anew(address, expected) : findings.length > 0 && h("p", {}, t("No passage on which the verdict rests is gone. Nothing is debated anew.")));
}

function line({ source, title, url, quote, found, decides, detail, now }) {
  const name = url ? h("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, h("bdi", {}, title)) : h("bdi", {}, title);
  const words = [FOUND[found], decides && t("the verdict rests on it")].filter(Boolean).join("; ");
  const became = BAD.includes(found) ? h("span", { class: "bad" }, icon("warn"), ` ${words}`) : words;
  return h("li", {}, h("bdi", {}, `[${source}] `), name, ": ", h("q", { dir: "auto" }, quote), " ", became, detail && h("small", { class: "quiet", lang: "en" }, ` ${detail}`), now && h("p", { class: "small" }, `${t("It now says:")} `, h("q", { dir: "auto" }, now)));
}

function anew(address, expected) {
  const problem = h("div", {});
  const begin = async ({ target }) => {
    target.disabled = true;
    try {
      const { thread_id: thread } = await ask(`${address}/anew`, { method: "POST" });
      location.assign(`/moot?thread=${thread}`);
    } catch (error) {
      target.disabled = false;
      problem.replaceChildren(fault(error.message));
    }
  };
  return h("div", {}, h("p", {}, t("A passage on which the verdict rests is gone. The check can be debated anew; this version stays."), " ", expected), h("div", { class: "acts" }, h("button", { type: "button", class: "btn main", onclick: begin }, t("Debate it anew"))), problem);
}

/** The checks to look at again by today, or why they cannot be listed; empty if there are none. */
export async function dueChecks() {
  const { due, problem } = await ask("/moot/api/due").catch((error) => ({ problem: error.message }));
  if (problem) return fault(problem);
  if (!due.length) return "";
  const rows = due.map(({ id, claim, day }) => h("li", {}, h("a", { class: "claim", href: `/moot/debates/${id}`, dir: "auto" }, claim || t("(no claim)")), h("span", { class: "meta" }, day ? h("time", { datetime: day }, new Date(`${day}T00:00`).toLocaleDateString(PLACE, { day: "numeric", month: "long", year: "numeric" })) : t("History changed by hand"))));
  return h("section", { class: "recent", "aria-labelledby": "due" }, h("h2", { id: "due" }, t("To look at again")), h("ol", { class: "checks" }, rows));
}
