// Many claims, from an article or a file: the user ticks and edits them, and the server runs them as a batch.

import { ask } from "./api.js";
import { batches } from "./batch.js";
import { dotted, fault, h, message, move, sync } from "./dom.js";
import { lists } from "./fields.js";
import { begin as search, join, nameOf } from "./finding.js";
import { claimsOf, dayOf, earlier, expectedWords, Home, uuid } from "./home.js";
import { t } from "./text.js";

const KEPT = "moot-claims";

/** Shows the claims of a search, else the last claims of this tab, else the start form. */
export async function claimsPage(main, thread) {
  document.title = t("Many claims - moot");
  if (thread) {
    const found = await join(main, thread, (model) => ask("/moot/api/choices").then((choices) => new Home(choices).plain(model)));
    return found && new Claims(main, found).show();
  }
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if (kept) return new Claims(main, kept).show();
  const [home, earlier] = await Promise.all([ask("/moot/api/choices").then((choices) => new Home(choices)), batches()]);
  home.update();
  main.replaceChildren(startForm(main, home), earlier ?? "");
}

/** For the start page: shows the claims of a list at once, and the claims of an article or an address after a search. */
export async function fromHome(main, kind, text, request) {
  if (kind === "list") fromLines(main, text, request);
  else await fromText(main, kind, text, request);
  document.querySelector("nav [aria-current]")?.removeAttribute("aria-current");
  document.querySelector('nav [href="/moot/claims"]').setAttribute("aria-current", "page");
}

function fromLines(main, text, request) {
  const claims = claimsOf(text).map((claim) => ({ id: uuid(), claim, own: true, ticked: true }));
  move("/moot/claims");
  new Claims(main, { source: nameOf({ text: claims[0].claim }), url: "", claims, problems: [], request }).open();
}

async function fromText(main, kind, text, request) {
  const read = kind === "url" ? await ask(`/moot/api/claims/text?${new URLSearchParams({ url: text })}`, { raw: "", method: "POST" }) : { text };
  await find(main, read, request);
}

/** The form for an article or a list. */
function startForm(main, home) {
  const problem = h("div", {});
  const file = h("input", { type: "file", id: "many", accept: ".csv,.tsv,.xlsx,.xlsm,.jsonl,.pdf,.html,.docx,.txt,.md" });
  file.addEventListener("change", async () => {
    const [one] = file.files;
    try {
      if (/\.(csv|tsv|xlsx|xlsm|jsonl)$/i.test(one.name)) return await fromRows(main, one, await home.request(), problem);
      const read = await ask(`/moot/api/claims/text?${new URLSearchParams({ name: one.name })}`, { raw: one });
      await find(main, read, await home.request());
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      file.value = "";
    }
  });
  const choices = h("div", { class: "three" }, home.thorough.node, home.evidence.node, home.model.node);
  return h("div", { class: "many" }, h("h1", {}, t("Many claims")), h("p", { class: "lede quiet" }, t("From an article: its claims are found, and you tick the ones to check. From a list: each row is a claim.")), choices, home.byName, home.used, home.documents, home.node.querySelector("#expert"), lists(home.choices), h("div", { class: "field inside" }, h("label", { for: "many" }, t("An article (PDF, HTML, Word, text), or a list of claims (CSV, Excel, JSON Lines)")), file, h("p", { class: "quiet tiny" }, t("A list needs a column of claims, best named claim; date, speaker and id are read too."))), h("p", { class: "small" }, t("To paste a text or an address, use") + " ", h("a", { href: "/moot" }, t("New check")), "."), problem);
}

/** Shows the claims of a list. If the list does not show how to read it, `asked` gets a form for the answers. */
async function fromRows(main, file, request, asked, answers = {}) {
  const { rows, notes, question, columns } = await ask(`/moot/api/claims/rows?${new URLSearchParams({ name: file.name, ...answers })}`, { raw: file });
  if (question) return asked.replaceChildren(questionForm(file.name, question, (answer) => fromRows(main, file, request, asked, { ...answers, ...answer })));
  const claims = rows.map(({ number, line, claim_date: date, cells, ...one }) => (one.problem ? correctable(number, one.problem, cells, one.written) : { ...one, date, own: true, ticked: true }));
  const problems = [...notes];
  const bad = claims.filter((one) => one.problem).length;
  if (bad) problems.unshift(t("{part} of {count} rows cannot be used as they are. They are marked: correct them, and tick them.", { part: bad, count: claims.length }));
  if (!claims.length) throw new Error([t("There is no claim in this file."), ...problems].join(" "));
  new Claims(main, { source: file.name, url: "", claims, problems, request, columns }).open();
}

/** A row that cannot be used, with the texts of the file, so that the user can correct it. */
function correctable(number, problem, { claim = "", date, speaker, appeared_at, label, labels, group, given }, written) {
  return { written, id: `row ${number}`, claim, date, speaker, appeared_at, label, labels, group, given: given?.startsWith("[") ? JSON.parse(given) : given, problem: t("Row {number}: {problem}.", { number, problem }), own: true, ticked: false };
}

/** Why a list is asked about, by what is to be chosen. */
const ASKED = { columns: t("No column is called claim."), dates: t("Its dates can be read in several ways."), sheet: t("Several sheets have a column of claims, but not the first one."), charset: t("The encoding of its text is not known.") };

/** A question about a list; the user picks one of the choices, or for columns also those of other facts. */
function questionForm(name, { text, about, choices }, answered) {
  const problem = h("div", {});
  const options = Object.entries(choices).map(([value, meaning]) => ({ value, words: meaning && about !== "charset" ? meaning : [value, meaning].filter(Boolean).join(": ") }));
  const select = (key, label, required) => {
    const node = h("select", { id: `list-${key}`, name: key, required }, h("option", { value: "" }, required ? t("choose") : t("no column")), options.map(({ value, words }) => h("option", { value }, words)));
    return h("div", { class: "field" }, h("label", { for: node.id }, label), node);
  };
  const fields = about === "columns" ? [select("column.claim", t("Column with the claims"), true), select("column.date", t("Column with the dates"), false), select("column.speaker", t("Column with the speakers"), false), select("column.appeared_at", t("Column with the addresses where the claims appeared"), false)] : [select(about, { dates: t("Order of the dates"), sheet: t("Sheet with the claims"), charset: t("Encoding in which the text is right") }[about], true)];
  const send = async (event) => {
    event.preventDefault();
    try {
      await answered(Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value)));
    } catch (error) {
      problem.replaceChildren(fault(error.message));
    }
  };
  return h("form", { class: "inside", onsubmit: send }, h("p", { role: "status" }, h("b", {}, `${name}: `), ASKED[about] ?? text), fields, h("button", { type: "submit", class: "btn main" }, t("Read the list")), problem);
}

/** Finds the claims in a text; after an error, the earlier view is restored. */
async function find(main, read, request) {
  const [before, from] = [[...main.childNodes], location.href];
  const text = { ...read, date: read.date ?? request.input.claim_date ?? null };
  try {
    if (request.builtIn) {
      const listed = await sentences(text);
      move("/moot/claims");
      return new Claims(main, { source: nameOf(read), url: read.url ?? "", request, ...listed }).open();
    }
    new Claims(main, await search(main, text, request)).open();
  } catch (error) {
    history.replaceState(null, "", from);
    main.replaceChildren(...before);
    throw error;
  }
}

/** Every sentence, for models that are too weak to find claims. */
async function sentences(text) {
  const { claims } = await ask("/moot/api/claims/sentences", { body: text });
  const told = t("The built-in model is too weak to find claims, so every sentence is listed. Tick the ones to check, and edit them: a claim must be understandable without its text.");
  return { claims: claims.map((one) => ({ ...one, date: text.date, ticked: false })), problems: [], told };
}

/** A list of claims to tick, edit and send to the server. */
class Claims {
  constructor(main, kept) {
    Object.assign(this, { main, kept });
  }

  get ticked() {
    return this.kept.claims.filter((one) => one.ticked && one.claim.trim());
  }

  store() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(this.kept));
    } catch {
      // too much for the browser's storage: the list is lost with the page
    }
  }

  /** Shows the claims in place of a form that had the focus, which then goes to their heading. */
  open() {
    this.show();
    if (document.activeElement === document.body) this.main.querySelector("h1").focus();
  }

  show() {
    this.store();
    document.title = t("Claims of {source} - moot", { source: this.kept.source });
    this.problem = h("div", {});
    this.before = h("div", {});
    this.start = h("button", { type: "button", class: "btn main", onclick: () => this.run() });
    this.once = h("input", { type: "number", id: "at-once", min: 1, max: 64, step: 1, value: this.kept.once ?? 4, required: true });
    this.most = h("input", { type: "number", id: "most", min: 0.01, step: "any", value: this.kept.most ?? null, placeholder: t("no limit"), inputmode: "decimal" });
    this.count = h("p", {});
    this.body = h("tbody", {});
    const csv = h("button", { type: "button", class: "btn slim", onclick: () => this.csv() }, t("Table (CSV)"));
    const other = h("button", { type: "button", class: "btn slim", onclick: () => this.forget() }, t("Another text"));
    const add = h("button", { type: "button", class: "btn slim", onclick: () => this.add() }, t("Add a claim"));
    const told = this.kept.problems.map((one) => h("p", { class: "warning small" }, h("b", {}, t("Not everything was used.")), ` ${one}`));
    if (this.kept.told) told.unshift(h("p", { class: "warning small" }, this.kept.told));
    this.all = h("input", { type: "checkbox", id: "all", onchange: () => this.tickAll(this.all.checked) });
    const all = h("p", { class: "small all" }, h("label", { for: "all" }, this.all, " " + t("All of them")));
    const table = h("table", { class: "claims" }, h("caption", { class: "vh" }, t("Claims and their places in the text")), h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "tick" }, h("span", { class: "vh" }, t("Check it"))), h("th", { scope: "col" }, t("Claim")), h("th", { scope: "col", class: "from" }, t("Place in the text, and reason")))), this.body);
    this.main.replaceChildren(
      h("div", { class: "headrow" }, h("div", {}, h("h1", { tabindex: "-1" }, t("{count} claims", { count: this.kept.claims.length })), h("p", { class: "quiet small", dir: "auto" }, this.kept.source)), h("div", { class: "acts" }, csv, other)),
      ...told,
      this.before,
      h("div", { class: "gostrip list" }, this.start, this.count, h("span", {}, h("label", { for: "at-once" }, t("Claims at the same time")), this.once), h("span", {}, h("label", { for: "most" }, t("Stop after spending (USD)")), this.most), this.problem),
      this.kept.claims.length ? h("div", {}, all, table) : message(t("No claims found"), t("The text has nothing that can be checked.")),
      h("div", { class: "acts more" }, add),
    );
    this.update();
    this.#lookUp();
  }

  /** Looks once whether the claims were checked before or repeat each other. Those that may be left out are unticked. */
  async #lookUp() {
    const claims = this.kept.claims.filter((one) => one.claim.trim());
    const isNew = claims.map((one) => !one.earlier);
    if (!isNew.some(Boolean)) return this.#told();
    const told = (n) => claims[n].claim.trim().slice(0, 80);
    try {
      const { found } = await ask("/moot/api/earlier", { body: { claims: claims.map((one) => one.claim) } });
      found.forEach(({ checks, doubt, same, near }, i) => {
        if (!isNew[i]) return;
        claims[i].earlier = checks;
        claims[i].hints = [doubt && t("Not ticked: {why}.", { why: doubt }), same !== null && t("The same claim is above: it is checked once if speaker and date are the same, too."), near !== null && t("Not ticked: nearly the same as “{claim}”.", { claim: told(near) })].filter(Boolean);
        if (doubt || near !== null || checks.some((one) => one.same)) claims[i].ticked = false;
      });
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
    this.store();
    this.#told();
    this.update();
  }

  /** Says how many of the claims were checked before in the same words, and where. */
  #told() {
    const known = this.kept.claims.flatMap((one) => one.earlier?.find((check) => check.same) ?? []);
    if (!known.length && !this.kept.batch) return;
    if (!known.length) return this.before.replaceChildren(h("p", { class: "warning small", role: "status" }, h("b", {}, t("The check of claims of this list was started.")), ` ${t("Nothing is paid for again: only what you tick is checked.")} `, h("a", { href: `/moot/batches/${this.kept.batch}` }, t("See the results"))));
    const lists = [...new Set(known.map((one) => one.list))];
    const all = known.length === this.kept.claims.length;
    const link = lists.length === 1 && lists[0] && h("a", { href: `/moot/batches/${lists[0]}` }, t("See the results"));
    this.before.replaceChildren(h("p", { class: "warning small", role: "status" }, h("b", {}, all ? t("This list was checked before.") : t("{count} of these claims were checked before.", { count: known.length })), ` ${t("Nothing is paid for again: only what you tick is checked.")} `, link));
  }

  update() {
    sync(this.body, this.kept.claims.map((one) => ({ key: one.id, state: `${one.left ?? ""} ${one.earlier?.length ?? ""} ${one.hints?.length ?? ""}`, make: () => this.row(one) })));
    const ticked = this.ticked.length;
    this.start.textContent = t("Check {count} claims", { count: ticked });
    this.start.disabled = !ticked;
    const wanted = this.kept.claims.filter((one) => !one.left && !one.problem);
    this.all.checked = wanted.length > 0 && wanted.every((one) => one.ticked);
    this.all.indeterminate = !this.all.checked && ticked > 0;
    const { graph } = this.kept.request;
    const method = { rag: t("a quick check"), tool_mad: t("a debate"), proclaim: t("a trial") }[graph] ?? graph.replaceAll("_", " ");
    const hint = t("Each gets {method}. The server checks them; you can close this page.", { method });
    this.count.textContent = ticked ? hint : t("Tick the claims to check.");
    if (ticked) this.#addCost(hint, ticked);
  }

  /** Puts what the checks are expected to take before the `hint`, unless other claims were ticked in the meantime. */
  async #addCost(hint, ticked) {
    const asked = (this.asked = Symbol());
    const words = await expectedWords(this.kept.request, ticked).catch(() => ""); // `run` shows why the server refuses
    if (words && asked === this.asked) this.count.textContent = `${words} ${hint}`;
  }

  /** Ticks all claims except the left-out ones, or none. */
  tickAll(ticked) {
    this.kept.claims.forEach((one, i) => {
      one.ticked = ticked && !one.left && !one.problem;
      this.body.children[i].querySelector(".tick input").checked = one.ticked;
    });
    this.store();
    this.update();
  }

  row(one) {
    const box = h("input", { type: "checkbox", checked: one.ticked, "aria-label": t("Check: {claim}", { claim: one.claim.slice(0, 80) }) });
    box.addEventListener("change", () => this.#set(one, { ticked: box.checked }));
    const text = h("textarea", { rows: Math.min(6, Math.ceil(one.claim.length / 60)), dir: "auto", "aria-label": t("Claim") });
    text.value = one.claim;
    text.addEventListener("input", () => {
      box.setAttribute("aria-label", t("Check: {claim}", { claim: text.value.slice(0, 80) }));
      this.#set(one, { claim: text.value });
    });
    const facts = [one.speaker, one.date && dayOf(one.date), one.page && t("page {number}", { number: one.page }), one.heading];
    const filled = one.filled?.length > 0 && h("small", {}, t("Filled in from the text: {words}.", { words: one.filled.map(({ start, end }) => Array.from(one.claim).slice(start, end).join("")).join(", ") }));
    const corrections = one.problem && this.#corrections(one);
    const where = [one.quote && h("q", { dir: "auto" }, one.quote), one.own && !one.quote && h("span", { class: "quiet" }, t("from your list")), h("small", {}, dotted([...facts, typeof one.score === "number" && t("worth checking: {score} of 1", { score: one.score.toFixed(2) }), one.reason]))];
    return h("tr", {}, h("td", { class: "tick" }, box), h("td", {}, text, one.left && h("small", {}, t("Left out: less worth checking.")), one.note && h("small", { class: "warning" }, one.note), one.hints?.map((hint) => h("small", { class: "warning" }, hint)), one.earlier?.map((check) => h("small", { class: "earlier" }, t("Checked before:") + " ", earlier(check))), corrections, filled), h("td", { class: "from" }, where));
  }

  /** What is wrong with a row of a list, and fields for its date and its speaker. */
  #corrections(one) {
    const input = (key, label) => {
      const node = h("input", { type: "text", value: one[key] ?? "", maxlength: 200, "aria-label": label, placeholder: label, oninput: () => this.#set(one, { [key]: node.value.trim() || undefined }) });
      return node;
    };
    return h("div", { class: "correct" }, h("small", {}, h("b", {}, t("Not usable as it is.") + " "), one.problem), input("date", t("Date, such as 2020-10-21")), input("speaker", t("Speaker")));
  }

  #set(one, changed) {
    Object.assign(one, changed);
    if (one.filled && "claim" in changed) one.filled = [];
    this.store();
    this.update();
  }

  add() {
    this.kept.claims.push({ id: uuid(), claim: "", own: true, ticked: true });
    this.show();
    this.body.lastChild.querySelector("textarea").focus();
  }

  forget() {
    sessionStorage.removeItem(KEPT);
    location.reload();
  }

  async csv() {
    try {
      const { text } = await post("/moot/api/claims/csv", { claims: this.ticked.map(withoutPageFields), source: this.kept.source, url: this.kept.url });
      const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      h("a", { href: address, download: "claims.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
  }

  /** Sends the ticked claims to the server, and opens the batch's page. */
  async run() {
    if (!this.once.reportValidity() || !this.most.reportValidity()) return;
    this.start.disabled = true;
    this.problem.replaceChildren();
    const { graph, input, context } = this.kept.request;
    const claims = this.ticked.map((one) => batchRow({ ...one, appeared_at: one.appeared_at ?? (this.kept.url || undefined) }));
    const most = this.most.value ? Number(this.most.value) : null;
    const body = { name: this.kept.source, graph, input, context, claims, columns: this.kept.columns ?? [], at_once: Number(this.once.value), max_cost: most };
    const signature = JSON.stringify(body);
    if (signature !== this.signature) this.key = uuid(); // a retry after an error is the same batch
    this.signature = signature;
    try {
      const { id } = await ask("/moot/api/batches", { body: { id: this.key, ...body } });
      for (const one of this.ticked) Object.assign(one, { ticked: false, earlier: undefined }); // who comes back does not pay twice
      this.kept.batch = id;
      this.store();
      location.assign(`/moot/batches/${id}`);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.start.disabled = false;
    }
  }
}

function withoutPageFields({ ticked, left, own, problem, earlier, hints, written, ...claim }) {
  return claim;
}

/** A claim as a row of a batch: the columns that `moot batch` reads. */
function batchRow({ claim, id, date, speaker, appeared_at, task, label, labels, options, given, group, graph, settings, written }) {
  return { claim: claim.trim(), id, date, speaker, appeared_at, task, label, labels, options, given, group, graph, settings, written };
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(JSON.parse(text).detail);
  return { text };
}
