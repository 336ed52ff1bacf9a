// A run that is watched: begun, joined again after a lost connection, stopped, answered when it asks.

import { ask, events } from "./api.js";
import { branching } from "./branch.js";
import { announce, fault, h } from "./dom.js";
import { fold } from "./fold.js";
import { question } from "./question.js";
import { showKept } from "./past.js";
import { DebateView } from "./view.js";

const STREAM = { stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue", multitask_strategy: "reject" };
const WAITS = [500, 1000, 2000, 4000, 8000];
const rest = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Begins a debate on a thread of its own. Errors of the request itself are thrown; later ones are shown. The same `key`
 * (a UUID) and request lead to the same debate, however often they are sent. `back` leads to where it was asked for.
 */
export async function begin(main, key, graph, input, context, back) {
  const { thread_id: thread } = await ask("/threads", { body: { thread_id: key, if_exists: "do_nothing" } });
  const body = { ...STREAM, assistant_id: graph, input, context };
  const first = events(`/threads/${thread}/runs/stream`, { body, key });
  const { value } = await first.next(); // a refusal comes before anything is shown
  const live = new Live(main, { thread, run: value.place?.split("/").pop(), graph, context, back });
  live.debate.claim = input.claim;
  return live.follow(first);
}

/** Watches a thread's last run, from its first event on. */
export async function watch(main, thread) {
  const place = `/threads/${encodeURIComponent(thread)}`;
  const [state, [last]] = await Promise.all([ask(`${place}/state`), ask(`${place}/runs?limit=1`)]).catch(explained);
  if (!last && !state.values?.graph) throw new Error("Nothing has run on this thread.");
  const live = new Live(main, { thread, run: last?.run_id, graph: last?.assistant_id ?? state.values.graph });
  fold(live.debate, state.values ?? {});
  return last ? live.follow(null) : live.end(state); // what ran on it ran before the server was started
}

function explained(error) {
  if (error.status !== 404) throw error;
  throw new Error("The server does not hold this debate: it is among the past debates.");
}

class Live {
  constructor(main, { thread, run, graph, context, back }) {
    Object.assign(this, { thread, run, graph, context, back });
    this.debate = {};
    this.view = new DebateView(main);
    this.spent = { calls: 0, tokens: 0 };
    this.working = new Map();
    this.begun = new Set();
    this.place();
  }

  /** The address under which this debate can be watched again. */
  place() {
    history.replaceState(null, "", `/moot?thread=${this.thread}`);
    document.querySelector("nav [aria-current]")?.removeAttribute("aria-current");
    this.last = "0";
    this.working.clear();
    this.state = h("span", {}, "The debate begins.");
    this.clock = h("span", { class: "quiet", "aria-hidden": "true" });
    this.stop = h("button", { type: "button", onclick: () => this.cancel() }, "Stop");
    this.view.bar.replaceChildren(this.stop, h("p", { class: "state" }, this.state, " ", this.clock));
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
        for await (const event of stream) {
          if (failures) this.say("Connected again.");
          failures = 0;
          this.take(event);
        }
        if (await this.isOver()) return this.end(await ask(`/threads/${this.thread}/state`));
      } catch (error) {
        if (error.status) return this.fail(error); // the server answered, and refused
        this.say(`${error.message} Trying again.`);
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
      if (node !== "__interrupt__" && written) fold(this.debate, written, place.length > 0);
    }
    this.show();
  }

  /** Who is at work where, and what it took so far. */
  progress({ event, node, agent, round, phase, calls, tokens }) {
    const place = [phase !== "primary" && phase, round > 0 && `round ${round}`].filter(Boolean).join(", ");
    const when = place.charAt(0).toUpperCase() + place.slice(1);
    const step = JSON.stringify([node, agent, place]);
    if (event === "begin") this.working.set(step, { when, who: `${agent ? `${agent}: ` : ""}${node === "open" ? "opening sources and models" : String(node).replaceAll("_", " ")}` });
    else this.working.delete(step);
    this.spent.calls += calls ?? 0;
    this.spent.tokens += tokens ?? 0;
    const now = [...Map.groupBy(this.working.values(), (one) => one.when)].map(([at, all]) => {
      const some = all.slice(0, 4).map(({ who }) => who);
      return `${at}${at && " - "}${some.join(", ")}${all.length > 4 ? `, ${all.length - 4} more` : ""}`;
    });
    this.state.textContent = [...now, `${this.spent.calls} calls, ${this.spent.tokens} tokens`].join(" · ");
    if (round > 0 && !this.begun.has(when)) announce(`${when} begins.`);
    this.begun.add(when);
  }

  tick() {
    const began = Date.parse(this.debate.started_at);
    if (began) this.clock.textContent = `${Math.max(0, Math.round((Date.now() - began) / 1000))} s`;
  }

  /** Shows what there is, in the server's words; at most one request for these at a time. */
  show() {
    this.changed = true;
    this.due ??= setTimeout(async () => {
      this.changed = false;
      const debate = { settings: this.context ?? {}, ...this.debate };
      document.title = `${debate.claim || "A debate"} - moot`;
      const said = await this.said(debate);
      if (!this.over && said) this.view.show(debate, said);
      this.due = null;
      if (this.changed && !this.over) this.show();
    }, 100);
  }

  /** What is said of the debate so far; null where the connection is lost, and so nothing new is known. */
  async said(debate) {
    if (!debate.graph) return { sections: [] }; // nothing was written yet
    const evidence = (debate.evidence ?? []).map(({ text, summary_of, ...piece }) => piece);
    try {
      return await ask("/moot/api/said", { body: { ...debate, evidence, calls: [] } });
    } catch (error) {
      return error.status ? { fault: error.message } : null;
    }
  }

  say(text) {
    this.state.textContent = text;
    announce(text);
  }

  async cancel() {
    this.stop.disabled = true;
    this.stopped = true;
    this.say("Stopping.");
    try {
      if (this.asking) return await this.finish();
      await ask(`${this.path}/cancel?wait=true&action=interrupt`, { body: {} });
    } catch (error) {
      this.stop.disabled = false;
      this.say(error.message);
    }
  }

  /** The run is over: it asks something, or the debate is. */
  async end({ values, tasks }) {
    const asked = (tasks ?? []).flatMap((task) => task.interrupts ?? []);
    fold(this.debate, values ?? {}); // what steps within the debate have said is not among its values yet
    if (!asked.length || this.stopped) return this.finish();
    this.show();
    clearInterval(this.ticking);
    this.asking = true;
    this.say("The debate waits for your answer.");
    this.view.slot.replaceChildren(question(asked, (resume) => this.resume(resume)));
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
    this.run = value.place?.split("/").pop();
    this.place();
    return this.follow(stream);
  }

  /** Offers to take the debate up again from an earlier step on. */
  async #branch() {
    const form = await branching(this.thread, (checkpoint, values) => {
      this.debate = {};
      fold(this.debate, values);
      return this.#on({ checkpoint });
    }).catch((error) => fault(error.message));
    this.view.slot.replaceChildren(form);
    form.querySelector("h2")?.focus();
  }

  async finish() {
    clearInterval(this.ticking);
    try {
      while ((await ask(`/threads/${this.thread}`)).status === "busy") await rest(500); // a run that was stopped still ends
      await showKept(this.view, this.thread);
      this.over = true;
      this.view.slot.replaceChildren(this.error ? fault(this.error) : "");
      if (this.view.debate.evidence.length) this.view.bar.append(h("button", { type: "button", onclick: () => this.#branch() }, "Go back, with other evidence"));
    } catch (error) {
      this.fail(error);
    }
    if (this.back) this.view.bar.append(h("button", { type: "button", onclick: () => this.#again() }, "Back to the form"));
  }

  /** The form, as it was filled in. */
  #again() {
    history.replaceState(null, "", "/moot");
    this.back();
  }

  fail(error) {
    clearInterval(this.ticking);
    this.over = true;
    this.view.bar.replaceChildren();
    this.view.slot.replaceChildren(fault(this.error ? `${this.error} (${error.message})` : error.message));
  }
}
