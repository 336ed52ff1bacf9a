// Many claims, from an article or a file: the user ticks and edits them, and the server runs them as a batch.

import { ask } from "./api.js";
import { batches } from "./batch.js";
import { fault, h, message, move, sync } from "./dom.js";
import { lists } from "./fields.js";
import { begin as search, join, nameOf } from "./finding.js";
import { claimsOf, Home, inWords, uuid } from "./home.js";

const KEPT = "moot-claims";

/** Shows the claims of a search, else the last claims of this tab, else the start form. */
export async function claimsPage(main, thread) {
  document.title = "Many claims - moot";
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
  new Claims(main, { source: nameOf({ text: claims[0].claim }), url: "", claims, problems: [], request }).show();
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
      if (/\.(csv|tsv|xlsx|xlsm|jsonl)$/i.test(one.name)) return await fromRows(main, one, home.request(), problem);
      const read = await ask(`/moot/api/claims/text?${new URLSearchParams({ name: one.name })}`, { raw: one });
      await find(main, read, home.request());
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      file.value = "";
    }
  });
  const choices = h("div", { class: "three" }, home.thorough.node, home.evidence.node, home.model.node);
  return h("div", { class: "many" }, h("h1", {}, "Many claims"), h("p", { class: "lede quiet" }, "From an article: its claims are found, and you tick the ones to check. From a list: each row is a claim."), choices, home.byName, home.documents, home.node.querySelector("#expert"), lists(home.choices), h("div", { class: "field inside" }, h("label", { for: "many" }, "An article (PDF, HTML, Word, text), or a list of claims (CSV, Excel, JSON Lines)"), file, h("p", { class: "quiet tiny" }, "A list needs a column of claims, best named claim; date, speaker and id are read too.")), h("p", { class: "small" }, "To paste a text or an address, use ", h("a", { href: "/moot" }, "New check"), "."), problem);
}

/** Shows the claims of a list. If the list does not show how to read it, `asked` gets a form for the answers. */
async function fromRows(main, file, request, asked, answers = {}) {
  const { rows, notes, question } = await ask(`/moot/api/claims/rows?${new URLSearchParams({ name: file.name, ...answers })}`, { raw: file });
  if (question) return asked.replaceChildren(questionForm(file.name, question, (answer) => fromRows(main, file, request, asked, { ...answers, ...answer })));
  const claims = rows.map(({ number, line, claim_date: date, cells, ...one }) => (one.problem ? correctable(number, one.problem, cells) : { ...one, date, own: true, ticked: true }));
  const problems = notes.map((one) => `${one[0].toUpperCase()}${one.slice(1)}.`);
  const bad = claims.filter((one) => one.problem).length;
  if (bad) problems.unshift(`${bad} of ${claims.length} rows cannot be used as they are. They are marked: correct them, and tick them.`);
  if (!claims.length) throw new Error(["There is no claim in this file.", ...problems].join(" "));
  new Claims(main, { source: file.name, url: "", claims, problems, request }).show();
}

/** A row that cannot be used, with the texts of the file, so that the user can correct it. */
function correctable(number, problem, { claim = "", date, speaker, label, labels, group, given }) {
  return { id: `row ${number}`, claim, date, speaker, label, labels, group, given: given?.startsWith("[") ? JSON.parse(given) : given, problem: `Row ${number}: ${problem}.`, own: true, ticked: false };
}

/** A question about a list; the user picks one of the choices, or for columns also those of the date and the speaker. */
function questionForm(name, { text, about, choices }, answered) {
  const problem = h("div", {});
  const options = Object.entries(choices).map(([value, meaning]) => ({ value, words: meaning && about !== "charset" ? meaning : [value, meaning].filter(Boolean).join(": ") }));
  const select = (key, label, required) => {
    const node = h("select", { id: `list-${key}`, name: key, required }, h("option", { value: "" }, required ? "choose" : "none"), options.map(({ value, words }) => h("option", { value }, words)));
    return h("div", { class: "field" }, h("label", { for: node.id }, label), node);
  };
  const fields = about === "columns" ? [select("column.claim", "Column with the claims", true), select("column.date", "Column with the dates", false), select("column.speaker", "Column with the speakers", false)] : [select(about, about === "dates" ? "Order of the dates" : "Encoding in which the text is right", true)];
  const send = async (event) => {
    event.preventDefault();
    try {
      await answered(Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value)));
    } catch (error) {
      problem.replaceChildren(fault(error.message));
    }
  };
  return h("form", { class: "inside", onsubmit: send }, h("p", { role: "status" }, h("b", {}, `${name}: `), text), fields, h("button", { type: "submit", class: "btn main" }, "Read the list"), problem);
}

/** Finds the claims in a text; after an error, the earlier view is restored. */
async function find(main, read, request) {
  const [before, from] = [[...main.childNodes], location.href];
  const text = { ...read, date: read.date ?? request.input.claim_date ?? null };
  try {
    if (request.builtIn) {
      const listed = await sentences(text);
      move("/moot/claims");
      return new Claims(main, { source: nameOf(read), url: read.url ?? "", request, ...listed }).show();
    }
    new Claims(main, await search(main, text, request)).show();
  } catch (error) {
    history.replaceState(null, "", from);
    main.replaceChildren(...before);
    throw error;
  }
}

/** Every sentence, for models that are too weak to find claims. */
async function sentences(text) {
  const { claims } = await ask("/moot/api/claims/sentences", { body: text });
  const told = "The built-in model is too weak to find claims, so every sentence is listed. Tick the ones to check, and edit them: a claim must be understandable without its text.";
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

  show() {
    this.store();
    document.title = `Claims of ${this.kept.source} - moot`;
    this.problem = h("div", {});
    this.start = h("button", { type: "button", class: "btn main", onclick: () => this.run() });
    this.once = h("input", { type: "number", id: "at-once", min: 1, max: 64, step: 1, value: this.kept.once ?? 4, required: true });
    this.most = h("input", { type: "number", id: "most", min: 0.01, step: "any", value: this.kept.most ?? null, placeholder: "no limit", inputmode: "decimal" });
    this.count = h("p", {});
    this.body = h("tbody", {});
    const csv = h("button", { type: "button", class: "btn slim", onclick: () => this.csv() }, "Table (CSV)");
    const other = h("button", { type: "button", class: "btn slim", onclick: () => this.forget() }, "Another text");
    const add = h("button", { type: "button", class: "btn slim", onclick: () => this.add() }, "Add a claim");
    const told = this.kept.problems.map((one) => h("p", { class: "warning small" }, h("b", {}, "Not everything was used."), ` ${one}`));
    if (this.kept.told) told.unshift(h("p", { class: "warning small" }, this.kept.told));
    this.all = h("input", { type: "checkbox", id: "all", onchange: () => this.tickAll(this.all.checked) });
    const all = h("p", { class: "small all" }, h("label", { for: "all" }, this.all, " All of them"));
    const table = h("table", { class: "claims" }, h("caption", { class: "vh" }, "Claims and their places in the text"), h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "tick" }, h("span", { class: "vh" }, "Check it")), h("th", { scope: "col" }, "Claim"), h("th", { scope: "col", class: "from" }, "Place in the text, and reason"))), this.body);
    this.main.replaceChildren(
      h("div", { class: "headrow" }, h("div", {}, h("h1", {}, `${this.kept.claims.length} ${this.kept.claims.length === 1 ? "claim" : "claims"}`), h("p", { class: "quiet small", dir: "auto" }, this.kept.source)), h("div", { class: "acts" }, csv, other)),
      ...told,
      h("div", { class: "gostrip list" }, this.start, this.count, h("span", {}, h("label", { for: "at-once" }, "Claims at the same time"), this.once), h("span", {}, h("label", { for: "most" }, "Stop after spending (USD)"), this.most), this.problem),
      this.kept.claims.length ? h("div", {}, all, table) : message("No claims found", "The text has nothing that can be checked."),
      h("div", { class: "acts more" }, add),
    );
    this.update();
  }

  update() {
    sync(this.body, this.kept.claims.map((one) => ({ key: one.id, state: one.left ?? null, make: () => this.row(one) })));
    const ticked = this.ticked.length;
    this.start.textContent = ticked === 1 ? "Check 1 claim" : `Check ${ticked} claims`;
    this.start.disabled = !ticked;
    const wanted = this.kept.claims.filter((one) => !one.left && !one.problem);
    this.all.checked = wanted.length > 0 && wanted.every((one) => one.ticked);
    this.all.indeterminate = !this.all.checked && ticked > 0;
    const { graph, each } = this.kept.request;
    const method = { rag: "a quick check", tool_mad: "a debate", proclaim: "a trial" }[graph] ?? graph.replaceAll("_", " ");
    const cost = each && ticked ? `: at most about ${inWords({ calls: each.calls * ticked, cost: each.cost && each.cost * ticked })} in all` : "";
    this.count.textContent = ticked ? `Each gets ${method}${cost}. The server checks them; you can close this page.` : "Tick the claims to check.";
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
    const box = h("input", { type: "checkbox", checked: one.ticked, "aria-label": `Check: ${one.claim.slice(0, 80)}` });
    box.addEventListener("change", () => this.#set(one, { ticked: box.checked }));
    const text = h("textarea", { rows: Math.min(6, Math.ceil(one.claim.length / 60)), dir: "auto", "aria-label": "Claim" });
    text.value = one.claim;
    text.addEventListener("input", () => {
      box.setAttribute("aria-label", `Check: ${text.value.slice(0, 80)}`);
      this.#set(one, { claim: text.value });
    });
    const facts = [one.speaker, one.date, one.page && `page ${one.page}`, one.heading].filter(Boolean).join(" · ");
    const filled = one.filled?.length > 0 && h("small", {}, `Filled in from the text: ${one.filled.map(({ start, end }) => Array.from(one.claim).slice(start, end).join("")).join(", ")}.`);
    const corrections = one.problem && this.#corrections(one);
    const where = [one.quote && h("q", { dir: "auto" }, one.quote), one.own && !one.quote && h("span", { class: "quiet" }, "from your list"), h("small", {}, [facts, typeof one.score === "number" && `worth checking: ${one.score.toFixed(2)} of 1`, one.reason].filter(Boolean).join(" · "))];
    return h("tr", {}, h("td", { class: "tick" }, box), h("td", {}, text, one.left && h("small", {}, "Left out: less worth checking."), one.note && h("small", { class: "warning" }, one.note), corrections, filled), h("td", { class: "from" }, where));
  }

  /** What is wrong with a row of a list, and fields for its date and its speaker. */
  #corrections(one) {
    const input = (key, label) => {
      const node = h("input", { type: "text", value: one[key] ?? "", maxlength: 200, "aria-label": label, placeholder: label, oninput: () => this.#set(one, { [key]: node.value.trim() || undefined }) });
      return node;
    };
    return h("div", { class: "correct" }, h("small", {}, h("b", {}, "Not usable as it is. "), one.problem), input("date", "Date, such as 2020-10-21"), input("speaker", "Speaker"));
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
    const claims = this.ticked.map(batchRow);
    const most = this.most.value ? Number(this.most.value) : null;
    const body = { name: this.kept.source, graph, input, context, claims, at_once: Number(this.once.value), max_cost: most };
    const signature = JSON.stringify(body);
    if (signature !== this.signature) this.key = uuid(); // a retry after an error is the same batch
    this.signature = signature;
    try {
      const { id } = await ask("/moot/api/batches", { body: { id: this.key, ...body } });
      location.assign(`/moot/batches/${id}`);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.start.disabled = false;
    }
  }
}

function withoutPageFields({ ticked, left, own, problem, ...claim }) {
  return claim;
}

/** A claim as a row of a batch: the columns that `moot batch` reads. */
function batchRow({ claim, id, date, speaker, label, labels, given, group, graph, settings }) {
  return { claim: claim.trim(), id, date, speaker, label, labels, given, group, graph, settings };
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(JSON.parse(text).detail);
  return { text };
}
