// Many claims: those of an article or a file, to tick and edit; then a debate for each, with a table of how they stand.

import { ask, events } from "./api.js";
import { chip, fault, h, icon, message, sync } from "./dom.js";
import { Home, uuid } from "./home.js";

const KEPT = "moot-claims";
const EVERY = 1500;
const rest = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The claims of this tab: those that were found last, or a way to begin. */
export async function claimsPage(main) {
  document.title = "Many claims - moot";
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if (kept) return new Claims(main, kept).show();
  main.replaceChildren(begin(main));
}

/** From the start page: reads an article or an address, finds its claims, and shows them. */
export async function fromHome(main, kind, text, request) {
  const read = kind === "url" ? await ask(`/moot/api/claims/text?${new URLSearchParams({ url: text })}`, { raw: "", method: "POST" }) : { text };
  history.pushState(null, "", "/moot/claims");
  await find(main, read, request);
}

/** What there is if nothing was read yet. */
function begin(main) {
  const problem = h("div", {});
  const file = h("input", { type: "file", id: "many", accept: ".csv,.tsv,.jsonl,.pdf,.html,.docx,.txt,.md" });
  file.addEventListener("change", async () => {
    const [one] = file.files;
    try {
      if (/\.(csv|tsv|jsonl)$/i.test(one.name)) return await fromRows(main, one);
      const read = await ask(`/moot/api/claims/text?${new URLSearchParams({ name: one.name })}`, { raw: one });
      await find(main, read, await defaults());
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      file.value = "";
    }
  });
  return h("div", {}, h("h1", {}, "Many claims"), h("p", { class: "lede quiet" }, "From an article: the claims in it are found, and you tick those to check. From a list: each row is a claim."), h("div", { class: "field inside" }, h("label", { for: "many" }, "An article (PDF, HTML, Word, text), or a list of claims (CSV, TSV, JSON Lines)"), file, h("p", { class: "quiet tiny" }, "A list needs a column named claim; date, speaker and id are read too.")), h("p", { class: "small" }, "To paste a text or an address, use ", h("a", { href: "/moot" }, "New check"), "."), problem);
}

/** What a debate is begun with if nothing else was chosen: as the start page has it. */
async function defaults() {
  const home = new Home(await ask("/moot/api/choices"));
  home.update();
  return home.request();
}

async function fromRows(main, file) {
  const { rows, ignored } = await ask(`/moot/api/claims/rows?${new URLSearchParams({ name: file.name })}`, { raw: file });
  const claims = rows.filter((one) => one.claim).map((one) => ({ id: one.id, claim: one.claim, date: one.claim_date, speaker: one.speaker, own: true, ticked: true }));
  const problems = rows.filter((one) => one.problem).map((one) => `Row ${one.number}: ${one.problem}`);
  if (ignored?.length) problems.push(`These columns are not read: ${ignored.join(", ")}.`);
  if (!claims.length) throw new Error(["There is no claim in this file.", ...problems].join(" "));
  new Claims(main, { source: file.name, url: "", claims, problems, request: await defaults() }).show();
}

/** Finds the claims in a text, and says how far it is. */
async function find(main, read, request) {
  const now = h("b", {}, "Reading the text.");
  const bar = h("div", { class: "meter", role: "progressbar", "aria-label": "Parts read", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, h("i", {}));
  main.replaceChildren(h("h1", { class: "claimline", dir: "auto" }, read.title || "Finding the claims in the text"), h("div", { class: "status" }, h("div", { class: "now" }, icon("run"), h("div", {}, h("p", { role: "status" }, now), h("p", {}, "Next: you tick the claims to check."))), bar));
  const context = { model: request.context.model, ...(request.context.max_cost && { max_cost: request.context.max_cost }) };
  const thread = (await ask("/threads", { body: {} })).thread_id;
  const stream = events(`/threads/${thread}/runs/stream`, { body: { assistant_id: "find_claims", input: read, context, stream_mode: ["custom", "updates", "values"] } });
  let [parts, ended, output] = [1, 0, null];
  for await (const { event, data } of stream) {
    if (event === "error") throw new Error(data?.message ?? data?.error ?? "The claims could not be found.");
    if (event === "updates" && data?.read_text?.parts) parts = Math.max(1, data.read_text.parts.length);
    if (event === "values") output = data;
    if (event !== "custom" || data?.event !== "step") continue;
    ended += 1;
    const percent = Math.min(100, Math.round((100 * ended) / (3 * parts + 3)));
    bar.setAttribute("aria-valuenow", percent);
    bar.firstChild.style.flex = `0 0 ${percent}%`;
    now.textContent = `Finding claims: ${percent}% of ${parts === 1 ? "the text" : `${parts} parts`}.`;
  }
  if (!output || output.status !== "done") throw new Error(output?.error?.detail ?? "The claims could not be found.");
  const { claims, left_out: left = [], dropped = [], unread = [] } = output;
  const problems = [];
  if (unread.length) problems.push(`${unread.length} of ${parts} parts could not be read by the model.`);
  if (dropped.length) problems.push(`${dropped.length} ${dropped.length === 1 ? "claim was" : "claims were"} dropped, as the text does not hold them.`);
  const some = left.map((one) => ({ ...one, claim: one.quote, ticked: false, left: true }));
  new Claims(main, { source: output.source || output.title || "the text", url: output.url ?? "", claims: [...claims.map((one) => ({ ...one, ticked: true })), ...some], problems, request }).show();
}

/** A list of claims: ticked, edited, checked one after the other. */
class Claims {
  constructor(main, kept) {
    Object.assign(this, { main, kept });
  }

  get ticked() {
    return this.kept.claims.filter((one) => one.ticked);
  }

  keep() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(this.kept));
    } catch {
      // more than the browser keeps: the list lasts as long as the page
    }
  }

  show() {
    this.keep();
    document.title = `Claims of ${this.kept.source} - moot`;
    this.problem = h("div", {});
    this.start = h("button", { type: "button", class: "btn main", onclick: () => this.run() });
    this.stop = h("button", { type: "button", class: "btn slim", hidden: true, onclick: () => this.#halt() }, "Stop");
    this.count = h("p", {});
    this.progress = h("div", { class: "prog" });
    this.body = h("tbody", {});
    const csv = h("button", { type: "button", class: "btn slim", onclick: () => this.csv() }, "Table (CSV)");
    const other = h("button", { type: "button", class: "btn slim", onclick: () => this.forget() }, "Another text");
    const add = h("button", { type: "button", class: "btn slim", onclick: () => this.add() }, "Add a claim");
    const told = this.kept.problems.map((one) => h("p", { class: "warning small" }, h("b", {}, "Not everything was taken."), ` ${one}`));
    const table = h("table", { class: "claims" }, h("caption", { class: "vh" }, "Claims, where they stand, and how each was decided"), h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "tick" }, h("span", { class: "vh" }, "Check it")), h("th", { scope: "col" }, "Claim"), h("th", { scope: "col", class: "from" }, "Where it stands, and why"), h("th", { scope: "col", class: "v" }, "Verdict"))), this.body);
    this.main.replaceChildren(
      h("div", { class: "headrow" }, h("div", {}, h("h1", {}, `${this.kept.claims.length} ${this.kept.claims.length === 1 ? "claim" : "claims"}`), h("p", { class: "quiet small", dir: "auto" }, this.kept.source)), h("div", { class: "acts" }, this.stop, csv, other)),
      ...told,
      this.progress,
      this.kept.claims.length ? h("div", {}, table) : message("No claims found", "The text holds nothing that can be checked."),
      this.problem,
      h("div", { class: "gostrip" }, this.start, this.count, add),
    );
    this.update();
    if (this.kept.claims.some((one) => one.thread && !over(one))) this.watch();
  }

  update() {
    sync(this.body, this.kept.claims.map((one) => ({ key: one.id, state: [one.state ?? null, one.document ?? null, one.left ?? null], make: () => this.row(one) })));
    const left = this.ticked.filter((one) => !over(one) && !one.thread);
    this.start.textContent = left.length === 1 ? "Check 1 claim" : `Check ${left.length} claims`;
    this.start.disabled = !left.length || this.busy;
    const { graph } = this.kept.request;
    const method = { rag: "a quick check", tool_mad: "a debate", proclaim: "a trial" }[graph] ?? graph;
    this.count.textContent = this.busy ? "One after the other; you can leave this page open and do something else." : `Each gets ${method}, one after the other.`;
    this.stop.hidden = !this.busy;
    const begun = this.ticked.filter((one) => one.thread || one.state);
    const done = begun.filter((one) => one.state?.status === "done").length;
    const failed = begun.filter((one) => over(one) && one.state.status !== "done").length;
    const running = begun.length - done - failed;
    const all = this.ticked.length;
    if (!begun.length) return this.progress.replaceChildren();
    const part = (share, kind) => share > 0 && grown(h("i", { class: kind }), share);
    this.progress.replaceChildren(h("div", { class: "meter", role: "progressbar", "aria-label": "Claims done", "aria-valuenow": done, "aria-valuemin": 0, "aria-valuemax": all }, part(done, ""), part(running, "run"), part(failed, "err"), grown(h("span", {}), all - done - running - failed)), h("p", { role: "status" }, h("span", {}, h("b", {}, `${done} of ${all} done`)), running > 0 && h("span", {}, `${running} running`), failed > 0 && h("span", {}, `${failed} failed or stopped`)));
  }

  row(one) {
    const box = h("input", { type: "checkbox", checked: one.ticked, "aria-label": `Check: ${one.claim.slice(0, 80)}`, disabled: Boolean(one.thread) });
    box.addEventListener("change", () => this.#set(one, { ticked: box.checked }));
    const text = h("textarea", { rows: Math.min(6, Math.ceil(one.claim.length / 60)), dir: "auto", "aria-label": "Claim" });
    text.value = one.claim;
    text.addEventListener("input", () => {
      box.setAttribute("aria-label", `Check: ${text.value.slice(0, 80)}`);
      this.#set(one, { claim: text.value });
    });
    const facts = [one.speaker, one.date, one.page && `page ${one.page}`, one.heading].filter(Boolean).join(" · ");
    const filled = one.filled?.length > 0 && h("small", {}, `Filled in from the text: ${one.filled.map(({ start, end }) => Array.from(one.claim).slice(start, end).join("")).join(", ")}.`);
    const where = [one.quote && h("q", { dir: "auto" }, one.quote), one.own && !one.quote && h("span", { class: "quiet" }, "from your list"), h("small", {}, [facts, typeof one.score === "number" && `worth checking: ${one.score.toFixed(2)} of 1`, one.reason].filter(Boolean).join(" · "))];
    const claim = one.document ? h("a", { href: `/moot/debates/${one.document}`, dir: "auto" }, one.claim) : one.thread ? h("a", { href: `/moot?thread=${one.thread}`, dir: "auto" }, one.claim) : text;
    return h("tr", {}, h("td", { class: "tick" }, box), h("td", {}, claim, one.left && h("small", {}, "Left out: less worth checking."), filled), h("td", { class: "from" }, where), h("td", { class: "v" }, this.standing(one)));
  }

  standing(one) {
    const { state } = one;
    if (!state) return null;
    if (state.status === "done") return chip(state.chip ?? { kind: "non", word: "No verdict" });
    if (state.status === "running") return h("span", { class: "cell on" }, icon("run"), " under way");
    if (state.status === "waiting") return h("a", { class: "cell on", href: `/moot?thread=${one.thread}` }, icon("warn"), " waits for your answer");
    const again = h("button", { type: "button", class: "link", onclick: () => this.again(one) }, "Try again");
    return h("div", { class: "bad" }, icon("warn"), state.status === "interrupted" ? " Stopped" : " Failed", state.note && h("small", {}, state.note), h("small", {}, again));
  }

  #set(one, changed) {
    Object.assign(one, changed);
    if (one.filled && "claim" in changed) one.filled = [];
    this.keep();
    this.update();
  }

  add() {
    this.kept.claims.push({ id: uuid(), claim: "", own: true, ticked: true });
    this.show();
    this.body.lastChild.querySelector("textarea").focus();
  }

  forget() {
    sessionStorage.removeItem(KEPT);
    this.main.replaceChildren(begin(this.main));
  }

  async csv() {
    try {
      const { text } = await post("/moot/api/claims/csv", { claims: this.ticked.filter((one) => one.claim.trim()).map(plain), source: this.kept.source, url: this.kept.url });
      const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      h("a", { href: address, download: "claims.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
  }

  again(one) {
    Object.assign(one, { thread: null, state: null, document: null, ticked: true });
    this.run();
  }

  /** Begins a debate for each ticked claim, one after the other. */
  async run() {
    if (this.busy) return;
    this.busy = true;
    this.halted = false;
    this.problem.replaceChildren();
    const { graph, input, context } = this.kept.request;
    try {
      for (let left; !this.halted && (left = this.ticked.filter((one) => !one.thread && one.claim.trim())).length; ) {
        const [one] = left;
        const key = uuid();
        await ask("/threads", { body: { thread_id: key, if_exists: "do_nothing" } });
        const asked = { claim: one.claim.trim(), ...input, ...(one.speaker && { speaker: one.speaker }), ...(one.date && { claim_date: one.date }) };
        const { run_id: run } = await ask(`/threads/${key}/runs`, { body: { assistant_id: graph, input: asked, context, stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, multitask_strategy: "reject" } });
        Object.assign(one, { thread: key, run, state: { status: "running" } });
        this.keep();
        this.update();
        await this.settled(one);
      }
    } catch (error) {
      this.problem.replaceChildren(fault(`${error.message} What was checked is kept.`));
    }
    this.busy = false;
    this.update();
  }

  /** Waits until a claim's debate is over, and notes how it ended. */
  async settled(one) {
    for (;;) {
      const { status } = await ask(`/threads/${one.thread}/runs/${one.run}`);
      if (status !== "running" && status !== "pending") break;
      await rest(EVERY);
    }
    const thread = await ask(`/threads/${one.thread}`);
    if (thread.status === "interrupted" && !this.halted) {
      one.state = { status: "waiting" };
    } else {
      const found = await ask(`/moot/api/debates/${one.thread}`).catch((error) => ({ note: error.message, status: "failed" }));
      const { document: debate, id } = found;
      one.document = id;
      one.state = debate ? { status: debate.status, chip: found.chip, note: debate.error?.detail } : { status: "failed", note: found.note };
    }
    this.keep();
    this.update();
  }

  /** Goes on watching what was begun before the page was left. */
  async watch() {
    this.busy = true;
    this.update();
    try {
      for (const one of this.kept.claims) if (one.thread && !over(one)) await this.settled(one);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
    this.busy = false;
    this.update();
  }

  async #halt() {
    this.halted = true;
    this.stop.disabled = true;
    for (const one of this.kept.claims.filter((of) => of.state?.status === "running")) {
      await ask(`/threads/${one.thread}/runs/${one.run}/cancel?wait=true&action=interrupt`, { body: {} }).catch((error) => this.problem.replaceChildren(fault(error.message)));
    }
    this.stop.disabled = false;
  }
}

function over({ state }) {
  return Boolean(state) && !["running", "waiting"].includes(state.status);
}

function grown(element, share) {
  element.style.flexGrow = share;
  return element;
}

function plain({ ticked, left, own, thread, run, state, document: _, ...claim }) {
  return claim;
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(JSON.parse(text).detail);
  return { text };
}
