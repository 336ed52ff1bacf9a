// The start page: a claim, an article or an address, three choices, one button. Everything else is folded.

import { ask } from "./api.js";
import { modelName, recent } from "./past.js";
import { announce, fault, h } from "./dom.js";
import { fieldsOf, foldsOf, json, labelled, linesOf, lists } from "./fields.js";
import { TextsField } from "./given.js";
import { begin } from "./live.js";
import { PLACE, t } from "./text.js";

const EXAMPLE = t("The platypus is a mammal that lays eggs.");
/** What to expect of the built-in model. */
const BUILT_IN = t("Tiny, free, offline. Shows each step; its verdicts mean nothing");
const FIRST = ["max_rounds", "rounds", "max_cost", "published_before", "ask_person"];
/** Settings that say where to search. If one is typed, the ticked evidence is not used. */
const SOURCES = ["debaters", "agents", "sources", "corpus", "retrieval"];
const LONGEST = 4000;
/** The maximum number of words in a line that counts as a claim of a list. */
const LONGEST_LINE = 40;
const BULLET = /^(?:[-*•–]|\d{1,3}[.)])\s+/;

const THOROUGH = [
  { key: "quick", graph: "rag", name: t("Quick check"), short: t("Quick"), about: t("One search, then one answer. Seconds") },
  { key: "debate", graph: "tool_mad", name: t("Debate"), about: t("Two debaters, up to three rounds. A minute or two") },
  { key: "trial", graph: "proclaim", name: t("Trial"), about: t("Both sides argued, sides switched, three judges. Several minutes") },
];

/** Shows the form for a new check. `again` is the id of a past debate that fills in the form, or null. `many` gets all that is no single claim. */
export async function newCheck(main, again, many) {
  document.title = t("New check - moot");
  const [choices, old] = await Promise.all([ask("/moot/api/choices"), again ? ask(`/moot/api/debates/${encodeURIComponent(again)}`) : null]);
  const home = new Home(choices, many);
  main.replaceChildren(home.node);
  if (old) home.repeat(old.document);
  home.update();
  const listed = await recent(); // after the form, which does not wait for the list
  if (home.node.isConnected) main.append(...listed); // otherwise a check has begun
}

/** The words of the machine's answers. */
const ANSWERS = { sup: t("Supported"), ref: t("Refuted"), nee: t("Not enough evidence"), con: t("Conflicting") };

/** A day in words; any other date as it is. */
export function dayOf(date) {
  return /^\d{4}-\d\d-\d\d$/.test(date) ? new Date(`${date}T12:00`).toLocaleDateString(PLACE, { day: "numeric", month: "long", year: "numeric" }) : date;
}

/** An earlier check of a claim: who, when, the verdict, the claim, and a link. */
export function earlier({ claim, by, verdict: given, kind, date, title, id, url }) {
  const verdict = ANSWERS[kind] ?? given;
  const link = id ? h("a", { href: `/moot/debates/${id}` }, verdict) : url ? h("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, verdict) : verdict;
  return h("span", {}, `${by || t("Your own check")}${date && `, ${dayOf(date)}`}: `, link, " ", h("q", { dir: "auto" }, claim), title && h("small", { class: "quiet" }, ` ${title}`));
}

export class Home {
  constructor(choices, many) {
    this.choices = choices;
    this.many = many;
    const { lacks, model } = choices;
    this.own = choices.corpora.filter((one) => !one.startsWith("demo-"));
    this.claim = h("textarea", { id: "claim", rows: 3, required: true, dir: "auto", placeholder: t("Paste it here. Several claims: one on each line"), oninput: () => this.update() });
    this.thorough = new Choice("thorough", t("How thorough"), THOROUGH, "debate", () => this.choose(this.thorough.value.graph));
    this.evidence = new Choice(
      "evidence",
      [t("Which evidence") + " ", h("small", {}, t("one or more"))],
      [
        { key: "web", name: t("Web"), about: choices.web, lacks: () => lacks.web, never: Boolean(lacks.web) },
        { key: "documents", name: t("My documents"), short: t("Mine"), about: this.own.length ? t("“{name}”, or others", { name: this.own[0] }) : "", lacks: () => (this.#hasDocuments() ? "" : t("None yet. Choose this to add some")) },
        { key: "wikipedia", name: t("Wikipedia"), about: t("Passages of its articles, in the claim’s language") },
      ],
      lacks.web ? "wikipedia" : "web",
      () => this.#evidenceChosen(),
      "checkbox",
    );
    this.used = h("p", { id: "used", role: "status" });
    this.model = new Choice(
      "model",
      t("Which model"),
      [
        { key: "embedded", name: t("Built in"), about: BUILT_IN, lacks: () => lacks.embedded, never: Boolean(lacks.embedded) },
        { key: model, name: modelName(model), about: choices.about, lacks: () => lacks[model], never: Boolean(lacks[model]) },
        { key: "other", name: t("Another"), about: t("By name, from any provider") },
      ],
      lacks[model] ? choices.usual : model,
      () => this.#modelChosen(),
    );
    this.named = h("input", { id: "model-name", type: "text", list: "known-models", placeholder: t("provider:name, for example ollama:qwen3:8b"), autocomplete: "off", oninput: () => this.update() });
    this.byName = h("div", { class: "field byname", hidden: true }, h("label", { for: "model-name" }, t("Name of the model")), this.named);
    this.given = new TextsField(() => this.update());
    const sample = { "demo-encyclopaedia": t("a small sample encyclopaedia"), "demo-news": t("small sample news") };
    this.collection = h("select", { id: "collection", onchange: () => this.update() }, h("option", { value: "" }, t("none: only the texts added here")), [...this.own, ...Object.keys(sample)].map((one) => h("option", { value: one }, sample[one] ?? `“${one}”`)));
    this.collection.value = this.own[0] ?? "";
    this.documents = h("details", { class: "fold", id: "documents" }, h("summary", {}, h("span", { class: "nb" }, t("My documents")), h("span", { class: "quiet" }, t("files and texts that are shown to every agent"))), h("div", { class: "inside" }, this.given.node, labelled(t("And search in"), this.collection, t("Collections are made with moot index."))));
    this.#rest();
    this.#build();
    this.choose("tool_mad");
  }

  /** Creates the folded fields: speaker, limits, method, answers, and every setting of the method. */
  #rest() {
    const { choices } = this;
    this.page = h("input", { id: "appeared-at", type: "url", maxlength: 2000, autocomplete: "off", placeholder: "example.org/story" });
    this.speaker = h("input", { id: "speaker", type: "text", maxlength: 200, dir: "auto", autocomplete: "off", placeholder: t("Name or outlet") });
    this.date = h("input", { id: "claim-date", type: "text", pattern: "\\d{4}(-\\d\\d){0,2}", placeholder: "2020-10-21", title: t("A year, a month or a day: 2020, 2020-10, 2020-10-21"), autocomplete: "off" });
    this.preset = h("select", { id: "preset", "aria-describedby": "preset-about", onchange: () => this.choose(this.graph.value) }, h("option", { value: "practical" }, t("practical: as moot recommends for checks")), h("option", { value: "paper" }, t("paper: as the method was published")));
    this.presetAbout = h("p", { class: "quiet tiny", id: "preset-about" });
    this.graph = h("select", { id: "graph", "aria-describedby": "graph-about", onchange: () => this.choose(this.graph.value) }, choices.graphs.map(({ name }) => h("option", { value: name }, choices.methods[name] ?? name)));
    this.about = h("p", { class: "quiet tiny", id: "graph-about" });
    this.task = h("select", { id: "task" }, h("option", { value: "" }, t("the method's default")), Object.entries(choices.tasks).map(([name, about]) => h("option", { value: name }, `${name} - ${about}`)));
    this.labels = h("textarea", { id: "labels", rows: 3 });
    this.options = h("textarea", { id: "options", rows: 3 });
    this.more = h("textarea", { id: "more", rows: 3, placeholder: '{"models": {"judge": "openai:gpt-5-mini"}}', spellcheck: "false" });
    this.fields = [];
    this.first = h("div", { class: "grid" });
    this.folds = h("div", {});
  }

  #build() {
    this.problem = h("div", {});
    this.button = h("button", { type: "submit", class: "btn main" }, t("Check it"));
    this.line = h("p", { id: "line" });
    this.button.setAttribute("aria-describedby", "line");
    this.instead = h("button", { type: "button", class: "link", hidden: true, onclick: () => this.#useOtherKind() });
    const example = h("button", { type: "button", class: "link", onclick: () => this.#example() }, EXAMPLE);
    const files = h("button", { type: "button", class: "link files", onclick: () => this.#open(this.documents) }, t("Add documents"));
    this.node = h(
      "form",
      { class: "ask", onsubmit: (event) => this.send(event) },
      h("h1", {}, t("Check a claim")),
      h("p", { class: "lede" }, t("Language models search for evidence, argue over it, and quote the passages that support their verdict.")),
      this.choices.unset && this.choices.usual !== "embedded" && firstModel(),
      h("div", { class: "box" }, h("label", { for: "claim" }, t("A claim, an article or a web address")), this.claim, h("div", { class: "under" }, h("span", {}, t("Try:") + " ", example), files)),
      h("div", { class: "three" }, this.thorough.node, this.evidence.node, this.model.node),
      this.byName,
      this.used,
      this.problem,
      h("div", { class: "go" }, this.button, h("div", {}, this.line, this.instead)),
      this.documents,
      h(
        "details",
        { class: "fold", id: "more-options" },
        h("summary", {}, h("span", { class: "nb" }, t("More options")), h("span", { class: "quiet" }, t("who said it and when, rounds, limits, when to ask you"))),
        h("div", { class: "inside" }, h("div", { class: "grid" }, labelled(t("Who said it"), this.speaker), labelled(t("When it was said or published"), this.date), labelled(t("Page on which it appeared"), this.page)), this.first),
      ),
      h(
        "details",
        { class: "fold", id: "expert" },
        h("summary", {}, h("span", { class: "nb" }, t("Method and every setting")), h("span", { class: "quiet" }, t("for experts in debate systems"))),
        h(
          "div",
          { class: "inside" },
          h("div", { class: "two" }, h("div", {}, labelled(t("Method"), this.graph), this.about), h("div", {}, labelled(t("Preset"), this.preset), this.presetAbout)),
          h("details", { class: "fold" }, h("summary", {}, h("span", { class: "nb" }, t("Kind of answer")), h("span", { class: "quiet" }, t("task, labels, options"))), h("div", { class: "grid" }, labelled(t("Task"), this.task), labelled(t("Your own labels (one per line)"), this.labels), labelled(t("Options to choose from (one per line)"), this.options))),
          this.folds,
          labelled(t("Settings as JSON; they override all others"), this.more),
        ),
      ),
      lists(this.choices),
    );
    this.node.addEventListener("invalid", ({ target }) => this.#open(target.closest("details")), true); // otherwise, the invalid field would be hidden
    this.node.addEventListener("change", () => this.update());
  }

  #open(fold) {
    for (let at = fold; at; at = at.parentElement.closest("details")) at.open = true;
    if (fold === this.documents) this.given.button.focus();
  }

  #example() {
    this.claim.value = EXAMPLE;
    this.forced = null;
    this.update();
    this.claim.focus();
  }

  #useOtherKind() {
    this.forced = this.other;
    this.update();
    this.button.focus();
  }

  #evidenceChosen() {
    if (this.evidence.keys.includes("documents") && !this.#hasDocuments()) this.#open(this.documents);
    this.update();
  }

  #modelChosen() {
    this.byName.hidden = this.model.key !== "other";
    if (!this.byName.hidden) this.named.focus();
    this.update();
  }

  #hasDocuments() {
    return Boolean(this.collection?.value || this.given?.count);
  }

  /** Shows the settings of the chosen method; typed values of settings that both methods have are kept. */
  choose(graph) {
    const { about, settings } = this.choices.graphs.find(({ name }) => name === graph);
    this.graph.value = graph;
    this.thorough.set(THOROUGH.find((one) => one.graph === graph)?.key);
    this.about.textContent = about;
    this.properties = this.#withDefaults(settings.properties);
    this.fields = fieldsOf({ ...settings, properties: this.properties }, this.fields);
    const decided = this.fields.filter(({ name }) => this.properties[name].presets).map(({ title }) => title);
    this.presetAbout.textContent = decided.length ? t("It sets the defaults of: {settings}.", { settings: decided.join(", ") }) : t("It changes nothing for this method.");
    this.first.replaceChildren(...FIRST.flatMap((name) => this.fields.filter((one) => one.name === name)).map((one) => one.node));
    this.folds.replaceChildren(...foldsOf(this.fields, FIRST));
    this.update();
  }

  /** The schemas of settings with the defaults of the chosen preset, without the preset itself. */
  #withDefaults({ preset, ...properties }) {
    return Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, one.presets ? { ...one, default: one.presets[this.preset.value] } : one]));
  }

  /** Fills in the values of settings that have a field; the other values go into the JSON field. */
  #fillIn(settings) {
    const rest = {};
    for (const [name, value] of Object.entries(settings)) {
      const field = this.fields.find((one) => one.name === name);
      if (field && value !== null) field.write(value);
      else if (value !== null) rest[name] = value;
    }
    if (Object.keys(rest).length) this.more.value = JSON.stringify(rest);
  }

  /** Fills in a past debate's claim, texts and settings. */
  repeat({ claim, graph, settings, task, evidence }) {
    this.claim.value = claim;
    this.forced = "claim";
    this.preset.value = settings.preset;
    this.choose(graph);
    const { properties } = this;
    const set = Object.entries(settings).filter(([name, value]) => properties[name] && JSON.stringify(value) !== JSON.stringify(properties[name].default));
    const simple = ([name]) => !["debaters", "agents", "models"].includes(name);
    this.#fillIn(Object.fromEntries(set.filter(simple)));
    const others = Object.fromEntries(set.filter((one) => !simple(one)));
    if (Object.keys(others).length) this.more.value = JSON.stringify(others);
    if (task?.name && task.name in this.choices.tasks) this.task.value = task.name;
    this.speaker.value = task?.speaker ?? "";
    this.date.value = task?.claim_date ?? "";
    this.page.value = task?.appeared_at ?? "";
    const given = (evidence ?? []).filter((piece) => piece.retrievals.some((one) => one.retriever === "given" && one.agent === "given"));
    given.forEach(({ id, title, text, url, published, page, heading }) => this.given.add(kept({ id, title, text, url, published, page, heading })));
    if (given.length) this.documents.open = true;
    this.node.querySelector("#expert").open = set.length > 0;
  }

  /** Updates the button and the hints, for the kind of the pasted text and the choices. */
  update() {
    const text = this.claim.value.trim();
    this.kind = this.forced ?? kindOf(text);
    const builtIn = this.model.key === "embedded" && !this.more.value.includes('"model"');
    const reads = this.kind === "article" || this.kind === "url"; // claims must be found by a model
    this.button.textContent = this.kind === "claim" ? (this.earlierFor === text ? t("Check it anyway") : t("Check it")) : this.kind === "list" ? t("List these claims") : builtIn ? t("List its sentences") : t("Find its claims");
    this.other = this.kind === "list" && isLong(text) ? "article" : "claim";
    this.instead.textContent = this.other === "article" ? t("Find its claims instead") : t("Check it as one claim instead");
    this.instead.hidden = (this.kind !== "article" && this.kind !== "list") || (this.other === "claim" && text.length > LONGEST);
    for (const one of [this.thorough, this.evidence, this.model]) one.update();
    const searches = this.#searches();
    this.evidence.disable(searches ? "" : t("This method does not search: the models answer from what they know."));
    this.#askEvidence();
    const hint = this.kind === "list" ? t("{count} lines, each read as one claim: they are listed for you to tick.", { count: linesOf(text).length }) : reads && builtIn ? t("The built-in model is too weak to find claims: every sentence is listed for you to tick.") : this.kind === "url" ? t("The page is read, and the claims in it are listed for you to tick.") : this.kind === "article" ? t("This looks like an article: the claims in it are listed for you to tick.") : this.#ends();
    this.line.textContent = hint;
    if (this.kind === "claim") this.#addCost(hint);
  }

  /** Whether the method searches for evidence. */
  #searches() {
    const readers = (name) => this.properties[name]?.default?.some?.((one) => one.retriever);
    return Boolean(this.properties && (this.properties.sources || readers("debaters") || readers("agents")));
  }

  /** Asks the server for the settings of the ticked evidence, and says which sources will be used. */
  async #askEvidence() {
    const typed = this.fields.some(({ name, read }) => SOURCES.includes(name) && read() !== undefined) || SOURCES.some((name) => this.more.value.includes(`"${name}"`));
    if (!this.#searches() || typed) {
      this.used.replaceChildren(...(typed && this.#searches() ? [h("b", {}, t("Will be used:") + " "), t("the sources named under “Method and every setting”.")] : []));
      this.asked = "";
      return;
    }
    const body = { graph: this.graph.value, words: this.evidence.keys, corpus: this.collection.value, given: this.given.count > 0 };
    if (!body.words.includes("documents")) body.corpus = "";
    const asked = JSON.stringify(body);
    if (asked === this.asked) return;
    this.asked = asked;
    const problemHere = !body.words.length ? t("Tick at least one kind of evidence: without evidence there is no verdict.") : body.words.includes("documents") && !this.#hasDocuments() ? t("There are no documents yet: add some under “My documents”, or choose other evidence.") : "";
    this.found = problemHere ? Promise.resolve({ problem: problemHere }) : ask("/moot/api/evidence", { body }).catch(({ message }) => ({ problem: message }));
    const { used, problem } = await this.found;
    if (asked !== this.asked) return;
    this.used.replaceChildren(h("b", {}, problem ? (t("Nothing will be searched:") + " ") : (t("Will be used:") + " ")), problem ?? used);
    this.used.classList.toggle("w", Boolean(problem));
  }

  /** Whether pages that a web search finds are read. */
  #reads() {
    const typed = this.fields.find((one) => one.name === "read_pages")?.read();
    return this.evidence.keys.includes("web") && (typed ?? this.properties.read_pages?.default ?? false);
  }

  #ends() {
    const limit = this.fields.find((one) => one.name === "max_cost")?.read();
    const builtIn = this.model.key === "embedded";
    const pages = this.#reads() ? (" " + t("The pages that the web search finds are fetched and read.")) : "";
    const stops = limit ? t("It stops at ${usd}, or when you stop it.", { usd: String(limit) }) : t("It stops when you stop it.");
    const free = builtIn ? `${t("Free.")} ` : "";
    return `${free}${stops}${pages}${builtIn ? ` ${t("The built-in model only shows how a check runs: its verdict will mean nothing.")}` : ""}`;
  }

  /** Puts what one check is expected to take before the `hint`, unless the hint has changed in the meantime. */
  async #addCost(hint) {
    const asked = (this.costAsked = Symbol());
    let words = "";
    try {
      words = await expectedWords(await this.request(), 1);
    } catch {
      // a choice is missing, such as the model's name; the button says which
    }
    if (words && asked === this.costAsked && this.line.textContent === hint) this.line.textContent = `${words} ${hint}`;
  }

  #modelName() {
    return this.model.key === "other" ? this.named.value.trim() : this.model.key;
  }

  async send(event) {
    event.preventDefault();
    this.button.disabled = true;
    this.problem.replaceChildren();
    try {
      if (this.kind !== "claim") {
        await this.many(this.node.closest("main"), this.kind, this.claim.value.trim(), await this.request());
        return;
      }
      if (this.claim.value.length > LONGEST) throw new Error(t("A claim has at most {most} characters; this text has {length}.", { most: LONGEST, length: this.claim.value.length }));
      const { graph, input, context } = await this.request();
      if (!(await this.#isNew(this.claim.value.trim()))) return;
      announce(t("The check begins."));
      const asked = [graph, { claim: this.claim.value, ...input }, context];
      const signature = JSON.stringify(asked);
      if (signature !== this.signature) this.key = uuid(); // a retry after an error is the same debate
      this.signature = signature;
      await begin(this.node.closest("main"), this.key, ...asked);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.button.disabled = false;
    }
  }

  /** Whether the claim was not checked before; if it was, the checks are listed, and a second press begins the check. */
  async #isNew(claim) {
    if (this.lookedUp === claim) return true;
    const { found: [{ checks, problem }] } = await ask("/moot/api/earlier", { body: { claims: [claim] } });
    this.lookedUp = claim;
    if (!checks.length) return true;
    this.earlierFor = claim;
    const lines = checks.map((one) => h("li", {}, earlier(one)));
    this.problem.replaceChildren(h("div", { class: "message earlier", role: "status" }, h("p", {}, h("b", {}, t("Checked before"))), h("ul", {}, lines), problem && h("p", { class: "small quiet" }, t("Published fact checks could not be looked up: {why}", { why: problem }))));
    this.button.disabled = false;
    this.update();
    return false;
  }

  /** A request for a debate, {graph, input without a claim, context}; `builtIn` says if its model is built in. */
  async request() {
    const context = { preset: this.preset.value, ...(await this.#chosenSettings()), ...this.#typedSettings() };
    return { graph: this.graph.value, input: this.#input(), context, builtIn: context.model === this.choices.embedded };
  }

  /** The request, with another model if one is given. */
  async plain(model) {
    const { context, ...others } = await this.request();
    return { ...others, context: { ...context, ...(model && { model }) } };
  }

  #input() {
    const input = {};
    if (this.task.value) input.task = this.task.value;
    if (this.speaker.value.trim()) input.speaker = this.speaker.value.trim();
    if (this.date.value.trim()) input.claim_date = this.date.value.trim();
    if (this.page.value.trim()) input.appeared_at = this.page.value.trim();
    for (const name of ["labels", "options"]) {
      const lines = linesOf(this[name].value);
      if (lines.length) input[name] = lines;
    }
    const given = this.given.read();
    if (given.length) input.given = given;
    return input;
  }

  /** Settings from the three choices; typed settings override them. */
  async #chosenSettings() {
    const model = this.#modelName();
    const typed = this.#typedSettings();
    if (!model && !typed.model && !typed.models) throw new Error(this.model.key ? t("Name the model, or choose another one.") : t("Choose a model."));
    const chosen = model ? { model: model === "embedded" ? this.choices.embedded : model } : {};
    if (!this.#searches() || SOURCES.some((name) => typed[name])) return chosen;
    this.#askEvidence();
    const { settings, problem } = await this.found;
    if (problem) throw new Error(problem);
    return { ...chosen, ...settings };
  }

  #typedSettings() {
    const typed = Object.fromEntries(this.fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined));
    return { ...typed, ...(this.more.value.trim() ? json(t("Settings as JSON"), this.more.value) : {}) };
  }
}

/** How to get a model, for a person who has none yet. */
function firstModel() {
  const code = (text) => h("code", {}, text);
  return h(
    "p",
    { class: "note", id: "first-model" },
    h("b", {}, t("First, a model.")),
    ` ${t("With Ollama, choose “Another” and type this:")} `,
    code("ollama:qwen3:8b"),
    `. ${t("With a key, stop moot, type this with your key, and start moot again:")} `,
    code("export OPENAI_API_KEY=..."),
    `. ${t("No model yet?")} `,
    h("a", { href: "/moot/example" }, t("See a finished check")),
    ".",
  );
}

const told = new Map();

/** What a number of checks are expected to take, in words; empty if that is not known. */
export function expectedWords({ graph, input, context }, count) {
  const given = (input.given ?? []).reduce((sum, one) => sum + one.text.length, 0);
  const body = { graph, context, count, given };
  const key = JSON.stringify(body);
  if (!told.has(key)) {
    const words = ask("/moot/api/expected", { body }).then((answer) => answer.words);
    told.set(key, words);
    words.catch(() => told.delete(key));
  }
  return told.get(key);
}

/** The kind of a pasted text: claim, list, article or url. */
export function kindOf(text) {
  if (/^https?:\/\/\S+$/i.test(text)) return "url";
  const lines = linesOf(text);
  const apart = !/\n\s*\n/.test(text) || !isLong(text) || lines.every((line) => BULLET.test(line)); // otherwise, the lines are paragraphs
  if (lines.length > 1 && apart && lines.every((line) => !/^\p{Ll}/u.test(line) && line.split(/\s+/).length <= LONGEST_LINE)) return "list";
  return isLong(text) ? "article" : "claim";
}

/** The claims of a list, one per line, without bullets and numbers. */
export function claimsOf(text) {
  return linesOf(text).map((line) => line.replace(BULLET, ""));
}

function isLong(text) {
  return text.split(/\s+/).length > 90 || text.length > LONGEST;
}

function kept(of) {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

/** One of the three choices: radio buttons or check boxes, each with a description; on a narrow screen, segments with one hint. */
class Choice {
  constructor(name, legend, options, chosen, changed, type = "radio") {
    this.options = options;
    this.hint = h("p", { class: "hints", "aria-hidden": "true" });
    this.rows = options.map((one) => {
      const input = h("input", { type, name, id: `${name}-${one.key}`, value: one.key, checked: one.key === chosen, disabled: one.never, "aria-describedby": `${name}-${one.key}-about`, onchange: changed });
      const about = h("small", { id: `${name}-${one.key}-about` });
      const node = h("div", { class: "opt" }, input, h("div", {}, h("label", { for: input.id }, one.name), about));
      return { one, input, about, node };
    });
    this.node = h("fieldset", { class: "choice" }, h("legend", {}, legend), this.rows.map((row) => row.node), this.hint);
  }

  get key() {
    return this.rows.find(({ input }) => input.checked)?.one.key;
  }

  get keys() {
    return this.rows.filter(({ input }) => input.checked).map(({ one }) => one.key);
  }

  get value() {
    return this.options.find((one) => one.key === this.key);
  }

  set(key) {
    for (const { one, input } of this.rows) input.checked = one.key === key;
  }

  update() {
    for (const { one, about } of this.rows) {
      const lacks = one.lacks?.() ?? "";
      about.textContent = lacks || one.about;
      about.classList.toggle("w", Boolean(lacks));
    }
    const at = this.rows.filter(({ input }) => input.checked);
    const never = this.rows.filter(({ one }) => one.never).map(({ one, about }) => `${one.name}: ${about.textContent}`);
    this.hint.textContent = [...at.map(({ about }) => about.textContent), ...never].filter(Boolean).join(". ");
  }

  /** Disables the choice, and says why. */
  disable(why) {
    this.node.classList.toggle("silent", Boolean(why));
    for (const { one, input } of this.rows) input.disabled = Boolean(why) || one.never === true;
    if (why) this.rows.forEach(({ about }) => (about.textContent = ""));
    this.why ??= this.node.appendChild(h("p", { class: "why-not tiny" }));
    this.why.textContent = why;
    this.why.hidden = !why;
  }
}

/** A random UUID; `crypto.randomUUID` is missing if the page comes from another machine without TLS. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
