// The live view of a run: starting, rejoining after a lost connection, stopping, answering its questions.

import { ask, events } from "./api.js";
import { fault, h, icon, message, slices } from "./dom.js";
import { DebateView } from "./view.js";
import { mergeUpdates } from "./state.js";
import { question } from "./question.js";
import { PLACE, t } from "./text.js";

const STREAM = { stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue", multitask_strategy: "reject" };
/** Milliseconds before each attempt to rejoin a run; the last one repeats. */
const WAITS = [500, 1000, 2000, 4000, 8000];
/** Maximum number of characters that are sent of each text of a folded turn. */
const LONGEST = 200;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Starts a debate on a new thread. Throws errors of the request; shows later errors. Requests with the same `key`
 * (a UUID) are one debate.
 */
export async function begin(main, key, graph, input, context) {
  const { thread_id: thread } = await ask("/threads", { body: { thread_id: key, if_exists: "do_nothing" } });
  const body = { ...STREAM, assistant_id: graph, input, context };
  const first = events(`/threads/${thread}/runs/stream`, { body, key });
  const { value } = await first.next(); // a refused request throws here, before anything is shown
  const live = new Live(main, { thread, run: value.place?.split("/").pop(), graph, context });
  live.debate.claim = input.claim;
  return live.follow(first);
}

/** Shows a thread's last run, from its first event on. */
export async function watch(main, thread) {
  const place = `/threads/${encodeURIComponent(thread)}`;
  const [state, [last]] = await Promise.all([ask(`${place}/state`), ask(`${place}/runs?limit=1`)]).catch(explainMissing);
  if (!last && !state.values?.graph && !state.values?.text) throw new Error(t("Nothing has run on this thread."));
  const { input, context } = last?.kwargs ?? {}; // while models load, only the request has the claim
  const system = state.values?.graph ?? last?.metadata?.graph_id ?? (state.values?.text ? "find_claims" : null);
  const opened = last && Date.parse(last.created_at);
  if (system === "find_claims") return location.replace(`/moot/claims?thread=${thread}`);
  const live = new Live(main, { thread, run: last?.run_id, graph: last?.assistant_id ?? system, system, context, opened });
  live.debate.claim = input?.claim;
  live.updates.push({ written: state.values ?? {} });
  return last ? live.follow(null) : live.end(state); // the server has no runs from before its start
}

function explainMissing(error) {
  if (error.status !== 404) throw error;
  throw new Error(t("The server has no thread for this debate: look for it in the past checks."));
}

class Live {
  constructor(main, { thread, run, graph, context, system = graph, opened = Date.now() }) {
    Object.assign(this, { main, thread, run, graph, context, system, opened });
    this.debate = {};
    this.updates = []; // updates of nodes since the last drawing
    this.view = new DebateView(main);
    this.spent = { calls: 0, tokens: 0 };
    this.working = new Map();
    this.steps = ask("/moot/api/choices").then(({ steps }) => steps, () => ({}));
    this.reset();
  }

  /** Sets the page's address, and resets the view for a new run. */
  reset() {
    history.replaceState(null, "", `/moot?thread=${this.thread}`);
    document.querySelector("nav [aria-current]")?.removeAttribute("aria-current");
    this.last = "0";
    this.working.clear();
    this.stop = h("button", { type: "button", class: "btn", onclick: () => this.cancel() }, t("Stop"));
    this.view.acts.replaceChildren(this.stop);
    this.view.status.classList.remove("wait");
    this.view.sign.replaceChildren(icon("run"));
    this.view.clockName.textContent = t("Elapsed");
    this.since = null;
    this.say(t("The check begins."), `${t("Next: models and sources are opened, and the first answers are written.")}${this.loading()}`);
    clearInterval(this.ticking);
    this.ticking = setInterval(() => this.tick(), 1000);
    this.show();
  }

  get path() {
    return `/threads/${this.thread}/runs/${this.run}`;
  }

  /** Follows a stream of events to the run's end, and rejoins it if the connection is lost. */
  async follow(stream) {
    for (let failures = 0; ; ) {
      try {
        stream ??= events(`${this.path}/stream?stream_mode=${encodeURIComponent(JSON.stringify(STREAM.stream_mode))}`, { last: this.last });
        const breath = slices();
        for await (const event of stream) {
          if (failures) this.say(t("Connected again."));
          failures = 0;
          this.take(event);
          await breath();
        }
        if (await this.isOver()) return this.end(await ask(`/threads/${this.thread}/state`));
      } catch (error) {
        if (error.status) return this.fail(error); // the server refused the request
        this.say(`${error.message} ${t("Trying again.")}`, t("The check continues on the server."));
        await sleep(WAITS[Math.min(failures++, WAITS.length - 1)]);
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
    if (event === "error") this.error = data?.message ?? data?.error ?? t("The run failed.");
    if (event !== "updates") return;
    for (const [node, written] of Object.entries(data ?? {})) {
      const within = place.length > 0 && (node === "open" || node === "close"); // a node of an inner debate
      if (node !== "__interrupt__" && written && !within) this.updates.push({ written, inner: place.length > 0 });
    }
    this.show();
  }

  /** Updates the running steps, and the calls and tokens so far. */
  progress({ event, node, agent, round, phase, calls, tokens }) {
    const step = JSON.stringify([node, agent, phase, round]);
    if (event === "begin") this.working.set(step, { node, agent, round, phase });
    else this.working.delete(step);
    this.spent.calls += calls ?? 0;
    this.spent.tokens += tokens ?? 0;
    if (round > 0) this.round = round;
    this.moved ??= setTimeout(() => this.move(), 250);
  }

  /** Describes the current steps, and the next one. */
  async move() {
    const steps = await this.steps;
    this.moved = null;
    if (this.over || this.asking || this.stopped) return;
    const all = [...this.working.values()].map((one) => ({ ...one, kind: steps[one.node]?.[0], doing: steps[one.node]?.[1] ?? String(one.node).replaceAll("_", " ") }));
    this.view.spent.textContent = this.spent.tokens ? t("{calls}, {tokens} tokens", this.spent) : String(this.spent.calls);
    this.view.working(all);
    if (!all.length) return;
    const { most, names = {} } = this.told ?? {};
    const round = this.round ? `${most > 1 ? t("Round {number} of at most {most}", { number: this.round, most: Math.max(most, this.round) }) : t("Round {number}", { number: this.round })}: ` : "";
    const doing = Map.groupBy(all, (one) => one.doing);
    const said = [...doing].slice(0, 3).map(([what, of]) => {
      const who = [...new Set(of.filter(({ agent }) => agent).map(({ agent }) => names[agent]?.[0] ?? agent))];
      if (!who.length) return what;
      const speakers = who.length > 3 ? t("{count} agents", { count: who.length }) : listed(who);
      if (who.length === 1) return t("{names} is {doing}", { names: speakers, doing: what });
      return t("{names} are {doing}", { names: speakers, doing: what.replace("its answer", "their answers").replace(/ it$/, " them") });
    });
    const now = `${round}${said.join("; ")}.`;
    const loading = all.every(({ node }) => node === "open") ? this.loading() : "";
    this.say(now.charAt(0).toUpperCase() + now.slice(1), `${t("Next: {step}", { step: nextOf(all, this.round, most) })}${loading}`);
  }

  /** A note on models that this machine may have to load first; loading reports no progress. */
  loading() {
    const { model, embedder } = this.context ?? {};
    const here = [model?.startsWith("embedded") && t("the built-in model"), embedder && !/^(openai|ollama|lmstudio|llamacpp|vllm|jan):/.test(embedder) && embedder].filter(Boolean);
    return here.length ? ` ${t("{models} may be loaded first. Later checks start without this wait.", { models: listed(here).replace(/^t/, "T") })}` : "";
  }

  tick() {
    const began = this.since ?? (Date.parse(this.debate.started_at) || this.opened); // while models load, the debate has not started
    const seconds = Math.max(0, Math.round((Date.now() - began) / 1000));
    this.view.clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  /** Shows the debate so far, as the server describes it. Requests do not overlap. */
  show() {
    this.changed = true;
    this.due ??= setTimeout(async () => {
      this.changed = false;
      this.join();
      const debate = { settings: this.context ?? {}, ...this.debate };
      this.view.title.textContent = debate.claim ?? "";
      document.title = `${debate.claim || t("A check")} - moot`;
      const told = await this.tell(debate);
      if (!this.over && told) await this.view.show((this.told = told), () => this.show());
      this.due = null;
      if (this.changed && !this.over) this.show();
    }, 150);
  }

  join() {
    mergeUpdates(this.debate, this.updates.splice(0));
  }

  /** The server's description of the debate so far; null if there is none, for example without a connection. */
  async tell(debate) {
    if (!(debate.graph ?? this.system)) return null; // there is no state yet
    const { turns = [], ...others } = debate;
    const body = JSON.stringify({ ...others, graph: debate.graph ?? this.system, calls: [], evidence: (debate.evidence ?? []).map(({ text, summary_of, shown, ...piece }) => ({ ...piece, text: "" })) });
    const raw = `${body.slice(0, -1)},"turns":[${sent(turns, this.view.open.size > 0).join(",")}]}`;
    const wanted = new URLSearchParams([...this.view.open].map((one) => ["open", one]));
    try {
      const told = await ask(`/moot/api/told?${wanted}`, { raw });
      this.errorBox?.remove();
      return told;
    } catch (error) {
      if (error.status) {
        this.errorBox?.remove();
        this.view.slot.before((this.errorBox = fault(error.message)));
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
    this.stop.textContent = t("Stopping …");
    this.say(t("Stopping."), t("The debate so far is stored."));
    try {
      if (this.asking) return await this.finish();
      await ask(`${this.path}/cancel?wait=true&action=interrupt`, { body: {} });
    } catch (error) {
      this.stop.disabled = false;
      this.stop.textContent = t("Stop");
      this.say(error.message);
    }
  }

  /** Handles the end of a run: the debate asks something, or is over. */
  async end({ values, tasks }) {
    const asked = (tasks ?? []).flatMap((task) => task.interrupts ?? []);
    this.updates.push({ written: values ?? {} }); // merged, because these values lack the updates of unfinished subgraphs
    this.join();
    if (!asked.length || this.stopped) return this.finish();
    this.show();
    this.asking = true;
    this.since = Date.now();
    this.view.clockName.textContent = t("Waiting for");
    this.view.working([]);
    this.view.status.classList.add("wait");
    this.view.sign.replaceChildren(icon("warn"));
    this.say(t("The debate waits for your answer."), t("Nothing is spent while it waits."));
    this.told ??= await this.tell({ settings: this.context ?? {}, ...this.debate });
    this.view.slot.replaceChildren(question(asked, (resume) => this.resume(resume), this.told?.names));
    this.view.slot.querySelector("h2").focus();
  }

  resume(resume) {
    return this.#startRun({ command: { resume } });
  }

  /** Starts another run on the thread. */
  async #startRun(asked) {
    const body = { ...STREAM, ...asked, assistant_id: this.graph, context: this.context ?? this.debate.settings };
    const stream = events(`/threads/${this.thread}/runs/stream`, { body });
    const { value } = await stream.next();
    this.asking = this.stopped = this.over = false;
    this.view.slot.replaceChildren();
    this.round = null;
    this.run = value.place?.split("/").pop();
    this.opened = Date.now();
    this.reset();
    return this.follow(stream);
  }

  /** Opens the report, now that the debate is over. */
  async finish() {
    clearInterval(this.ticking);
    this.say(t("The result is written."));
    try {
      while ((await ask(`/threads/${this.thread}`)).status === "busy") await sleep(500); // a stopped run needs a moment to end
      const { id, needs_summary: needed } = await ask(`/moot/api/debates/${this.thread}`);
      if (needed) {
        this.say(t("A summary of the debate is being written."));
        await ask(`/moot/api/debates/${id}/summary`, { method: "POST" }).catch(() => null); // the report asks again, and shows the error
      }
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
    const again = h("a", { class: "btn main", href: "/moot" }, t("New check"));
    const heading = this.error ? t("The check failed") : this.stopped ? t("Stopped") : error.status === 0 ? t("The server does not answer") : t("The check cannot be shown");
    const box = message(heading, null, again, h("a", { class: "btn", href: "/moot/debates" }, t("Past checks")));
    box.firstChild.after(h("p", { role: "alert" }, this.error ? `${this.error} (${error.message})` : error.message));
    this.view.slot.replaceChildren(box);
    box.querySelector("h1").replaceWith(h("h2", {}, heading));
  }
}

const SENT = new WeakMap();
const placeOf = ({ phase, round }) => `${phase} ${round}`;

/** Turns as JSON. Folded rounds show only answers, so their other texts are cut and unverified quotes are left out. */
function sent(turns, whole) {
  const last = [...new Set(turns.map(placeOf))].slice(-2);
  return turns.map((turn) => {
    if (whole || last.includes(placeOf(turn))) return JSON.stringify(turn);
    if (!SENT.has(turn)) SENT.set(turn, JSON.stringify(Object.fromEntries(Object.entries(turn).map(([key, value]) => [key, shortened(key, value)]))));
    return SENT.get(turn);
  });
}

function shortened(key, value) {
  if (key === "citations") return (value ?? []).filter((one) => one.verified);
  return key !== "answer" && typeof value === "string" ? value.slice(0, LONGEST) : value;
}

function listed(names) {
  return new Intl.ListFormat(PLACE).format(names);
}

/** The next step in words, by the kind of the current step. `on` is the next round, or null if rounds are not counted. */
const NEXT = {
  prepare: () => t("the first answers are written."),
  search: () => t("answers are written from the evidence."),
  answer: (last, on) => (on === null ? t("the answer is checked and stored.") : last ? t("the answers are compared. If they agree, the debate may end here; if not, a decision is made.") : t("the answers are compared. If they agree, the debate may end here; if not, round {number} follows.", { number: on })),
  check: (last, on) => (on === null || last ? t("the decision.") : t("the decision if the answers agree; else round {number}.", { number: on })),
  decide: () => t("the report is written."),
  end: () => t("the report opens by itself."),
  person: () => t("the check waits for your answer."),
};

/** The step that follows the current steps, in words. */
function nextOf(all, round, most) {
  const order = Object.keys(NEXT);
  const kind = order.filter((one) => all.some((of) => of.kind === one)).at(-1) ?? "answer";
  return NEXT[kind](round >= most, most > 1 && round ? round + 1 : null);
}
