// A batch that the server runs: progress, verdicts and cost. It continues without this page.

import { ask } from "./api.js";
import { announce, dotted, fault, h, icon, sync } from "./dom.js";
import { METHODS, judged, modelName, when } from "./past.js";
import { removing } from "./result.js";
import { PLACE, t } from "./text.js";

const ROUTE = "/moot/api/batches";
/** Milliseconds between two updates. */
const EVERY = 1500;
const SHOWN = { all: t("All"), open: t("Not done"), sup: t("Supported"), ref: t("Refuted"), nee: t("Not enough evidence"), con: t("Conflicting"), text: t("Other answers"), non: t("No verdict"), divided: t("Disagreement"), failed: t("Failed") };
/** Filters that are always shown; the others are shown only if a claim matches. */
const ALWAYS = ["all", "open", "sup", "ref", "nee", "divided", "failed"];

/** Shows a batch, and updates the page while the batch runs. */
export async function batchPage(main, id, asked) {
  const page = new BatchPage(id, asked);
  await page.update();
  main.replaceChildren(page.node);
}

class BatchPage {
  constructor(id, asked) {
    Object.assign(this, { id, show: asked.get("show") ?? "all", words: asked.get("q") ?? "", page: Number(asked.get("page") ?? 1) });
    this.heading = h("h1", {});
    this.about = h("p", { class: "quiet small", dir: "auto" });
    this.acts = h("div", { class: "acts" });
    this.progress = h("div", { class: "prog" });
    this.stopped = h("div", {});
    this.problem = h("div", {});
    this.kinds = h("div", { class: "kinds", role: "radiogroup", "aria-label": t("Show") });
    this.body = h("tbody", {});
    this.none = h("p", { class: "quiet small" });
    this.pages = h("nav", { "aria-label": t("Pages of the table"), class: "acts" });
    const search = h("input", { type: "search", placeholder: t("Find in claims"), "aria-label": t("Find in claims"), value: this.words, oninput: ({ target }) => this.#turn({ words: target.value, page: 1 }) });
    const filters = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, this.kinds, search);
    const head = (name, kind) => h("th", { scope: "col", class: kind }, name);
    const table = h("table", { class: "claims batch" }, h("caption", { class: "vh" }, t("Claims with their verdicts and reasons")), h("thead", {}, h("tr", {}, head(h("span", { class: "vh" }, t("Number")), "tick"), head(t("Claim")), head(t("Verdict"), "v"), head(t("Why"), "back"), head(t("Sources quoted"), "so"), head(t("Cost"), "cost"), head(t("Time"), "time"))), this.body);
    this.node = h("div", {}, h("div", { class: "headrow" }, h("div", {}, this.heading, this.about), this.acts), this.progress, this.stopped, this.problem, filters, table, this.none, this.pages);
  }

  /** Shows other rows, and writes the filter to the address. */
  #turn(changed) {
    Object.assign(this, changed);
    history.replaceState(null, "", `/moot/batches/${this.id}${this.#query()}`);
    clearTimeout(this.due);
    this.due = setTimeout(() => this.#again(), 150);
  }

  #query() {
    const asked = new URLSearchParams({ ...(this.show !== "all" && { show: this.show }), ...(this.words.trim() && { q: this.words }), ...(this.page > 1 && { page: this.page }) });
    return asked.size ? `?${asked}` : "";
  }

  /** Updates the page now; if the page is hidden or the update fails, tries again later. */
  async #again() {
    clearTimeout(this.due);
    if (document.hidden) return (this.due = setTimeout(() => this.#again(), EVERY));
    try {
      await this.update();
      this.problem.replaceChildren();
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.due = setTimeout(() => this.#again(), EVERY);
    }
  }

  async update() {
    const wanted = (this.turn = this.#query());
    const batch = await ask(`${ROUTE}/${this.id}${wanted}`);
    if (wanted !== this.turn) return; // the filter has changed in the meantime
    const open = (batch.statuses.running ?? 0) + (batch.statuses.waiting ?? 0);
    clearTimeout(this.due);
    if (batch.going || open) this.due = setTimeout(() => this.#again(), EVERY);
    this.#describe(batch);
    sync(this.body, batch.rows.map((row) => ({ key: row.number, state: [row, batch.stopped], make: () => this.#row(row) })));
    this.none.textContent = batch.rows.length ? "" : t("No claim matches.");
    const turn = (name, page) => ({ key: name, state: page, make: () => h("button", { type: "button", class: "btn slim", onclick: () => this.#turn({ page }) }, name) });
    const said = { key: "page", state: [batch.page, batch.pages], make: () => h("span", { class: "quiet small" }, t("Page {page} of {pages}", { page: batch.page, pages: batch.pages })) };
    sync(this.pages, batch.pages < 2 ? [] : [batch.page > 1 && turn(t("Previous"), batch.page - 1), said, batch.page < batch.pages && turn(t("Next"), batch.page + 1)].filter(Boolean));
  }

  #describe(batch) {
    const { counts, statuses } = batch;
    this.stoppedBy = batch.stopped;
    const all = counts.all;
    this.heading.textContent = t("{count} claims", { count: all });
    document.title = `${batch.name} - moot`;
    const model = batch.model && modelName(batch.model);
    this.about.textContent = [batch.name, METHODS[batch.graph] ?? batch.graph.replaceAll("_", " "), model, t("started {time}", { time: when(new Date(batch.began)) })].filter(Boolean).join(" · ");
    const done = statuses.done ?? 0;
    const running = statuses.running ?? 0;
    const part = (share, kind) => share > 0 && grown(h("i", { class: kind }), share);
    const money = batch.usd > 0 && (batch.max_cost ? t("{usd} of at most about {most}", { usd: dollars(batch.usd), most: dollars(batch.max_cost) }) : dollars(batch.usd));
    const [verified, unverified] = batch.quotes;
    const facts = [running && t("{count} running", { count: running }), statuses.waiting && t("{count} waiting for your answer", { count: statuses.waiting }), counts.failed && t("{count} failed", { count: counts.failed }), batch.going && statuses.next && t("{count} to come", { count: statuses.next }), batch.left, money, verified + unverified > 0 && t("{part} of {count} quotes found in their source", { part: verified, count: verified + unverified })];
    const bar = h("div", { class: "meter", role: "progressbar", "aria-label": t("Claims done"), "aria-valuenow": done, "aria-valuemin": 0, "aria-valuemax": all }, part(done, ""), part(running, "run"), part(counts.failed, "err"), part(all - done - running - counts.failed, "left"));
    sync(this.progress, [
      { key: "bar", state: [done, running, counts.failed, all], make: () => bar },
      { key: "told", state: [done, facts], make: () => h("p", {}, h("span", {}, h("b", {}, t("{part} of {whole} done", { part: done, whole: all }))), facts.filter(Boolean).map((one) => h("span", {}, one))) },
    ]);
    const over = !batch.going && batch.ended && t("Every claim was processed.");
    if (this.said !== over && this.said !== undefined && over) announce(t("{part} of {whole} claims are done.", { part: done, whole: all }));
    this.said = over;
    const left = all - done - counts.failed - (statuses.waiting ?? 0) - running;
    const why = !batch.going && (batch.stopped || (left > 0 && !batch.ended ? t("The server was stopped before every claim was processed.") : ""));
    sync(this.stopped, why ? [{ key: "why", state: why, make: () => h("p", { class: "warning small" }, h("b", {}, t("This batch has stopped.")), ` ${why} ${t("Finished checks stay stored.")}`) }] : []);
    const act = (name, path, body, kind = "") => ({ key: name, state: 0, make: () => h("button", { type: "button", class: `btn slim ${kind}`, onclick: (event) => this.#do(event, path, body) }, name) });
    sync(
      this.acts,
      [
        batch.going && act(t("Stop"), "stop", {}),
        !batch.going && left > 0 && act(t("Go on"), "go-on", {}, "main"),
        counts.failed > 1 && act(t("Try all failed claims again"), "go-on", { failed: true }),
        { key: "csv", state: 0, make: () => h("a", { class: "btn slim", href: `${ROUTE}/${this.id}/csv`, download: "" }, t("Table (CSV)")) },
        batch.sheets && { key: "xlsx", state: 0, make: () => h("a", { class: "btn slim", href: `${ROUTE}/${this.id}/xlsx`, download: "" }, t("Table (Excel)")) },
        done > 0 && { key: "zip", state: 0, make: () => h("a", { class: "btn slim", href: `${ROUTE}/${this.id}/zip`, download: "" }, t("All reports (ZIP)")) },
        !batch.going && { key: "delete", state: 0, make: () => removing(`${ROUTE}/${this.id}`, "/moot/claims") },
      ].filter(Boolean),
    );
    const kinds = Object.entries(SHOWN).filter(([kind]) => ALWAYS.includes(kind) || counts[kind] || kind === this.show);
    sync(this.kinds, kinds.map(([kind, name]) => ({ key: kind, state: [counts[kind], kind === this.show], make: () => this.#kind(kind, name, counts[kind]) })));
  }

  #kind(kind, name, count) {
    const input = h("input", { type: "radio", name: "show", value: kind, checked: kind === this.show, onchange: () => this.#turn({ show: kind, page: 1 }) });
    const drawn = ["sup", "ref", "nee", "con", "non"].includes(kind) ? kind : ["failed", "divided"].includes(kind) && "warn";
    return h("label", { class: `f ${drawn || ""}` }, input, drawn && icon(drawn), name, " ", h("span", { class: "num" }, count));
  }

  #row(row) {
    const href = row.thread ? `/moot?thread=${row.thread}` : row.document && `/moot/debates/${row.document}`;
    const claim = href ? h("a", { href, dir: "auto" }, row.claim) : h("span", { class: "words", dir: "auto" }, row.claim);
    const [used, pieces, found, notFound] = row.quotes ?? [];
    const quotes = row.quotes && [t("{part} of {whole}", { part: used, whole: pieces }), h("small", {}, notFound ? t("{count} quotes, {found} found", { count: found + notFound, found }) : found ? t("{count} quotes, all found", { count: found }) : t("no quotes"))];
    const why = [row.divided && h("b", {}, t("Disagreement.") + " "), h("span", { dir: "auto" }, row.why || row.backing), row.warned && h("small", { class: "warning" }, row.warned), row.cut && h("small", { class: "warning" }, t("A limit ended this check early."))];
    return h("tr", {}, h("td", { class: "tick num" }, row.number), h("td", { class: "claim" }, claim, row.about.length > 0 && h("small", {}, dotted(row.about)), row.same_as && h("small", {}, t("Same as claim {number}: checked once.", { number: row.same_as }))), h("td", { class: "v" }, this.#standing(row)), h("td", { class: "back" }, why), h("td", { class: "so", "data-name": (t("Sources quoted:") + " ") }, quotes), h("td", { class: "cost num", "data-name": (t("Cost:") + " ") }, row.document ? dollars(row.usd) : ""), h("td", { class: "time num", "data-name": (t("Time:") + " ") }, row.document && typeof row.seconds === "number" ? lasted(row.seconds) : ""));
  }

  #standing(row) {
    if (row.status === "done") return judged({ kind: row.chip[0], word: row.chip[1] }, row.review);
    if (row.status === "running") return h("span", { class: "cell on" }, icon("run"), " " + t("under way"));
    if (row.status === "waiting") return h("a", { class: "cell on", href: `/moot?thread=${row.thread}` }, icon("warn"), " " + t("waits for your answer"));
    if (row.status === "next") return h("span", { class: "cell" }, t("to come"));
    const again = h("button", { type: "button", class: "link", "aria-label": t("Try again: {claim}", { claim: row.claim.slice(0, 80) }), onclick: (event) => this.#do(event, "go-on", { rows: [row.number] }) }, t("Try again"));
    if (row.status === "none") return h("span", { class: "cell" }, this.stoppedBy ? t("not begun: {why}", { why: this.stoppedBy.split(". ")[0] }) : t("not begun"));
    const name = row.status === "interrupted" ? t("Stopped") : t("has failed");
    return h("div", { class: "bad" }, h("b", {}, icon("warn"), ` ${name}`), row.error && h("small", { dir: "auto" }, row.error), h("small", {}, again));
  }

  async #do({ target }, path, body) {
    target.disabled = true;
    this.problem.replaceChildren();
    try {
      await ask(`${ROUTE}/${this.id}/${path}`, { body });
      await this.#again();
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
    target.disabled = false;
  }
}

/** The latest batches, for the page of claims; nothing if there are none. */
export async function batches() {
  const { batches: found } = await ask(ROUTE);
  if (!found.length) return null;
  const row = (one) => {
    if (one.fault) return h("li", {}, h("span", { class: "cell bad" }, icon("warn"), " " + t("Damaged")), h("span", {}, one.fault));
    const done = one.statuses.done ?? 0;
    const stands = one.going ? h("span", { class: "cell on" }, icon("run"), " ", t("{part} of {whole} done", { part: done, whole: one.counts.all })) : h("span", { class: "cell" }, t("{part} of {whole} done", { part: done, whole: one.counts.all }));
    const failed = one.counts.failed > 0 && t("{count} failed", { count: one.counts.failed });
    const at = h("time", { datetime: one.began }, when(new Date(one.began)));
    return h("li", {}, h("span", {}, stands), h("a", { href: `/moot/batches/${one.id}`, dir: "auto" }, one.name), h("span", { class: "meta" }, [METHODS[one.graph] ?? one.graph.replaceAll("_", " "), failed, !one.going && one.stopped && t("stopped")].filter(Boolean).join(" · "), " · ", at));
  };
  return h("section", { class: "earlier", "aria-labelledby": "earlier" }, h("h2", { id: "earlier", class: "h" }, t("Earlier lists")), h("ol", { class: "checks" }, found.map(row)));
}

/** An amount in USD, or "unknown". */
function dollars(usd) {
  if (typeof usd !== "number") return t("unknown");
  if (usd > 0 && usd < 0.001) return t("under $0.001");
  const digits = usd < 0.1 && usd > 0 ? 3 : 2;
  return t("${usd}", { usd: usd.toLocaleString(PLACE, { minimumFractionDigits: digits, maximumFractionDigits: digits }) });
}

function lasted(seconds) {
  const whole = Math.round(seconds);
  return whole < 60 ? `${seconds.toLocaleString(PLACE, { maximumFractionDigits: seconds < 10 ? 1 : 0 })} s` : `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} min`;
}

function grown(element, share) {
  element.style.flexGrow = share;
  return element;
}
