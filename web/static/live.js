// A run that is watched: begun, joined again after a lost connection, stopped, answered when it asks.

import { ask, events } from "./api.js";
import { breath, fault, h, icon, message } from "./dom.js";
import { Floor } from "./floor.js";
import { fold } from "./fold.js";
import { question } from "./question.js";

const STREAM = { stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue", multitask_strategy: "reject" };
const WAITS = [500, 1000, 2000, 4000, 8000];
/** Milliseconds of events that are taken in one go. */
const A_SLICE = 10;
/** Characters of a text of a turn that is folded. */
const LONGEST = 200;
const rest = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Begins a debate on a thread of its own. Errors of the request itself are thrown; later ones are shown. The same `key`
 * (a UUID) and request lead to the same debate, however often they are sent.
 */
export async function begin(main, key, graph, input, context) {
  const { thread_id: thread } = await ask("/threads", { body: { thread_id: key, if_exists: "do_nothing" } });
  const body = { ...STREAM, assistant_id: graph, input, context };
  const first = events(`/threads/${thread}/runs/stream`, { body, key });
  const { value } = await first.next(); // a refusal comes before anything is shown
  const live = new Live(main, { thread, run: value.place?.split("/").pop(), graph, context });
  live.debate.claim = input.claim;
  return live.follow(first);
}

/** Watches a thread's last run, from its first event on. */
export async function watch(main, thread) {
  const place = `/threads/${encodeURIComponent(thread)}`;
  const [state, [last]] = await Promise.all([ask(`${place}/state`), ask(`${place}/runs?limit=1`)]).catch(explained);
  if (!last && !state.values?.graph) throw new Error("Nothing has run on this thread.");
  const { input, context } = last?.kwargs ?? {}; // until models are loaded, nothing else says what is checked
  const system = state.values?.graph ?? last?.metadata?.graph_id;
  const opened = last && Date.parse(last.created_at);
  const live = new Live(main, { thread, run: last?.run_id, graph: last?.assistant_id ?? system, system, context, opened });
  live.debate.claim = input?.claim;
  fold(live.debate, state.values ?? {});
  return last ? live.follow(null) : live.end(state); // what ran on it ran before the server was started
}

function explained(error) {
  if (error.status !== 404) throw error;
  throw new Error("The server does not hold this debate: it is among the past debates.");
}

class Live {
  constructor(main, { thread, run, graph, context, system = graph, opened = Date.now() }) {
    Object.assign(this, { main, thread, run, graph, context, system, opened });
    this.debate = {};
    this.view = new Floor(main);
    this.spent = { calls: 0, tokens: 0 };
    this.working = new Map();
    this.steps = ask("/moot/api/choices").then(({ steps }) => steps, () => ({}));
    this.place();
  }

  /** The address under which this debate can be watched again. */
  place() {
    history.replaceState(null, "", `/moot?thread=${this.thread}`);
    document.querySelector("nav [aria-current]")?.removeAttribute("aria-current");
    this.last = "0";
    this.working.clear();
    this.stop = h("button", { type: "button", class: "btn", onclick: () => this.cancel() }, "Stop");
    this.view.acts.replaceChildren(this.stop);
    this.view.status.classList.remove("wait");
    this.view.sign.replaceChildren(icon("run"));
    this.view.clockName.textContent = "Elapsed";
    this.since = null;
    this.say("The check begins.", `Next: models and sources are opened, and the first answers are written.${this.loading()}`);
    clearInterval(this.ticking);
    this.ticking = setInterval(() => this.tick(), 1000);
    this.show();
  }

  get path() {
    return `/threads/${this.thread}/runs/${this.run}`;
  }

  /** Follows a stream of events to the run's end, joining it again wherever the connection is lost. */
  async follow(stream) {
    for (let failures = 0; ; ) {
      try {
        stream ??= events(`${this.path}/stream?stream_mode=${encodeURIComponent(JSON.stringify(STREAM.stream_mode))}`, { last: this.last });
        let began = performance.now();
        for await (const event of stream) {
          if (failures) this.say("Connected again.");
          failures = 0;
          this.take(event);
          if (performance.now() - began < A_SLICE) continue;
          await breath();
          began = performance.now();
        }
        if (await this.isOver()) return this.end(await ask(`/threads/${this.thread}/state`));
      } catch (error) {
        if (error.status) return this.fail(error); // the server answered, and refused
        this.say(`${error.message} Trying again.`, "The check itself goes on meanwhile.");
        await rest(WAITS[Math.min(failures++, WAITS.length - 1)]);
      }
      stream = null;
    }
  }

  async isOver() {
    const { status } = await ask(this.path);
    return status !== "running" && status !== "pending";
  }

  take({ id, event, place, data }) {
    if (id) this.last = id;
    if (event === "metadata" && data?.run_id) this.run = data.run_id;
    if (event === "custom" && data?.event) this.progress(data);
    if (event === "error") this.error = data?.message ?? data?.error ?? "The run failed.";
    if (event !== "updates") return;
    for (const [node, written] of Object.entries(data ?? {})) {
      const within = place.length > 0 && (node === "open" || node === "close"); // of a debate within this one
      if (node !== "__interrupt__" && written && !within) fold(this.debate, written, place.length > 0);
    }
    this.show();
  }

  /** Who is at work where, and what it took so far. */
  progress({ event, node, agent, round, phase, calls, tokens }) {
    const step = JSON.stringify([node, agent, phase, round]);
    if (event === "begin") this.working.set(step, { node, agent, round, phase });
    else this.working.delete(step);
    this.spent.calls += calls ?? 0;
    this.spent.tokens += tokens ?? 0;
    if (round > 0) this.round = round;
    this.moved ??= setTimeout(() => this.move(), 200);
  }

  /** Says what happens now: who works on what, and what comes next. */
  async move() {
    const steps = await this.steps;
    this.moved = null;
    if (this.over || this.asking || this.stopped) return;
    const all = [...this.working.values()].map((one) => ({ ...one, kind: steps[one.node]?.[0], doing: steps[one.node]?.[1] ?? String(one.node).replaceAll("_", " ") }));
    this.view.spent.textContent = `${this.spent.calls}${this.spent.tokens ? `, ${this.spent.tokens.toLocaleString("en")} tokens` : ""}`;
    this.view.working(all);
    if (!all.length) return;
    const { most, names = {} } = this.told ?? {};
    const round = this.round ? `Round ${this.round}${most > 1 ? ` of at most ${Math.max(most, this.round)}` : ""}: ` : "";
    const doing = Map.groupBy(all, (one) => one.doing);
    const said = [...doing].slice(0, 3).map(([what, of]) => {
      const who = [...new Set(of.filter(({ agent }) => agent).map(({ agent }) => names[agent]?.[0] ?? agent))];
      if (!who.length) return what;
      return `${who.length > 3 ? `${who.length} of them` : listed(who)} ${who.length > 1 ? "are" : "is"} ${who.length > 1 ? what.replace("its answer", "their answers").replace(/ it$/, " them") : what}`;
    });
    const now = `${round}${said.join("; ")}.`;
    const loading = all.every(({ node }) => node === "open") ? this.loading() : "";
    this.say(now.charAt(0).toUpperCase() + now.slice(1), `Next: ${nextOf(all, this.round, most)}${loading}`);
  }

  /** Which models are loaded on this machine, if any is: how far that is nobody tells, so the clock has to do. */
  loading() {
    const { model, embedder } = this.context ?? {};
    const here = [model?.startsWith("embedded") && "the built-in model", embedder && !/^(openai|ollama|vllm):/.test(embedder) && embedder].filter(Boolean);
    return here.length ? ` ${listed(here).replace(/^t/, "T")} may be loaded first; it stays for later checks.` : "";
  }

  tick() {
    const began = this.since ?? (Date.parse(this.debate.started_at) || this.opened); // it takes a while to load a model
    const seconds = Math.max(0, Math.round((Date.now() - began) / 1000));
    this.view.clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  /** Shows what there is, in the server's words; at most one request for these at a time. */
  show() {
    this.changed = true;
    this.due ??= setTimeout(async () => {
      this.changed = false;
      const debate = { settings: this.context ?? {}, ...this.debate };
      this.view.title.textContent = debate.claim ?? "";
      document.title = `${debate.claim || "A check"} - moot`;
      const told = await this.tell(debate);
      if (!this.over && told) await this.view.show((this.told = told), () => this.show());
      this.due = null;
      if (this.changed && !this.over) this.show();
    }, 150);
  }

  /** What is told of the debate so far; null if the connection is lost, and so nothing new is known. */
  async tell(debate) {
    if (!(debate.graph ?? this.system)) return null; // nothing was written yet
    const { turns = [], ...others } = debate;
    const body = JSON.stringify({ ...others, graph: debate.graph ?? this.system, calls: [], evidence: (debate.evidence ?? []).map(({ text, summary_of, shown, ...piece }) => ({ ...piece, text: "" })) });
    const raw = `${body.slice(0, -1)},"turns":[${sent(turns, this.view.open.size > 0).join(",")}]}`;
    const wanted = new URLSearchParams([...this.view.open].map((one) => ["open", one]));
    try {
      const told = await ask(`/moot/api/told?${wanted}`, { raw });
      this.untold?.remove();
      return told;
    } catch (error) {
      if (error.status) {
        this.untold?.remove();
        this.view.slot.before((this.untold = fault(error.message)));
      }
      return null;
    }
  }

  say(now, next) {
    this.view.say(now, next);
  }

  async cancel() {
    this.stop.disabled = true;
    this.stopped = true;
    this.stop.textContent = "Stopping …";
    this.say("Stopping.", "What is there is kept.");
    try {
      if (this.asking) return await this.finish();
      await ask(`${this.path}/cancel?wait=true&action=interrupt`, { body: {} });
    } catch (error) {
      this.stop.disabled = false;
      this.stop.textContent = "Stop";
      this.say(error.message);
    }
  }

  /** The run is over: it asks something, or the debate is. */
  async end({ values, tasks }) {
    const asked = (tasks ?? []).flatMap((task) => task.interrupts ?? []);
    fold(this.debate, values ?? {}); // what steps within the debate have said is not among its values yet
    if (!asked.length || this.stopped) return this.finish();
    this.show();
    this.asking = true;
    this.since = Date.now();
    this.view.clockName.textContent = "Waiting for";
    this.view.working([]);
    this.view.status.classList.add("wait");
    this.view.sign.replaceChildren(icon("warn"));
    this.say("The debate waits for your answer.", "Nothing is spent while it waits.");
    this.told ??= await this.tell({ settings: this.context ?? {}, ...this.debate });
    this.view.slot.replaceChildren(question(asked, (resume) => this.resume(resume), this.told?.names));
    this.view.slot.querySelector("h2").focus();
  }

  resume(resume) {
    return this.#on({ command: { resume } });
  }

  /** Another run on the thread. */
  async #on(asked) {
    const body = { ...STREAM, ...asked, assistant_id: this.graph, context: this.context ?? this.debate.settings };
    const stream = events(`/threads/${this.thread}/runs/stream`, { body });
    const { value } = await stream.next();
    this.asking = this.stopped = this.over = false;
    this.view.slot.replaceChildren();
    this.round = null;
    this.run = value.place?.split("/").pop();
    this.opened = Date.now();
    this.place();
    return this.follow(stream);
  }

  /** The debate is over: its report takes the place of what was watched. */
  async finish() {
    clearInterval(this.ticking);
    this.say("The result is written.");
    try {
      while ((await ask(`/threads/${this.thread}`)).status === "busy") await rest(500); // a run that was stopped still ends
      const { id } = await ask(`/moot/api/debates/${this.thread}`);
      this.over = true;
      location.replace(`/moot/debates/${id}${location.hash}`);
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    clearInterval(this.ticking);
    this.over = true;
    this.view.acts.replaceChildren();
    this.view.status.remove();
    const again = h("a", { class: "btn main", href: "/moot" }, "New check");
    const heading = this.error ? "The check failed" : this.stopped ? "Stopped" : error.status === 0 ? "The server does not answer" : "The check cannot be shown";
    const box = message(heading, null, again, h("a", { class: "btn", href: "/moot/debates" }, "Past checks"));
    box.firstChild.after(h("p", { role: "alert" }, this.error ? `${this.error} (${error.message})` : error.message));
    this.view.slot.replaceChildren(box);
    box.querySelector("h1").replaceWith(h("h2", {}, heading));
  }
}

const SENT = new WeakMap();
const placeOf = ({ phase, round }) => `${phase} ${round}`;

/** Turns as JSON; long texts of rounds that are folded are cut, as nothing of them is shown but who answered what. */
function sent(turns, whole) {
  const last = [...new Set(turns.map(placeOf))].slice(-2);
  return turns.map((turn) => {
    if (whole || last.includes(placeOf(turn))) return JSON.stringify(turn);
    if (!SENT.has(turn)) SENT.set(turn, JSON.stringify(Object.fromEntries(Object.entries(turn).map(([key, value]) => [key, key !== "answer" && typeof value === "string" ? value.slice(0, LONGEST) : value]))));
    return SENT.get(turn);
  });
}

function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

const NEXT = {
  prepare: () => "the first answers are written.",
  search: () => "answers are written from what is found.",
  answer: (last, on) => (on === null ? "the answer is checked and written down." : `the answers are compared. If they agree, it may end here; if not, ${last ? "a decision is made" : `round ${on} follows`}.`),
  check: (last, on) => (on === null ? "the decision." : `the decision if they agree; else ${last ? "it is made all the same" : `round ${on}`}.`),
  decide: () => "the report is written.",
  end: () => "the report opens by itself.",
  person: () => "it waits for you.",
};

/** What comes after what all are doing now. */
function nextOf(all, round, most) {
  const order = Object.keys(NEXT);
  const kind = order.filter((one) => all.some((of) => of.kind === one)).at(-1) ?? "answer";
  return NEXT[kind](round >= most, most > 1 && round ? round + 1 : null);
}
