// A run that is watched: begun, joined again after a lost connection, stopped, answered when it asks.

import { ask, events } from "./api.js";
import { announce, fault, h } from "./dom.js";
import { fold } from "./fold.js";
import { question } from "./question.js";
import { keep } from "./past.js";
import { DebateView } from "./view.js";

const STREAM = { stream_mode: ["updates", "custom"], stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue", multitask_strategy: "reject" };
const WAITS = [500, 1000, 2000, 4000, 8000];

/** Begins a debate on a thread of its own. Errors of the request itself are thrown; later ones are shown. */
export async function begin(main, graph, input, context) {
  const { thread_id: thread } = await ask("/threads", { body: {} });
  const body = { ...STREAM, assistant_id: graph, input, context };
  const first = events(`/threads/${thread}/runs/stream`, { body });
  const { value } = await first.next(); // a refusal comes before anything is shown
  const live = new Live(main, { thread, run: value.place?.split("/").pop(), graph, context });
  live.debate.claim = input.claim;
  return live.follow(first);
}

/** Watches a run that is there already, from its first event on. */
export async function watch(main, { thread, run }) {
  const place = `/threads/${encodeURIComponent(thread)}`;
  const [{ values }, known] = await Promise.all([ask(`${place}/state`), ask(`${place}/runs/${encodeURIComponent(run)}`)]);
  const live = new Live(main, { thread, run, graph: known.assistant_id });
  fold(live.debate, values ?? {});
  return live.follow(null);
}

class Live {
  constructor(main, { thread, run, graph, context }) {
    Object.assign(this, { thread, run, graph, context });
    this.debate = {};
    this.view = new DebateView(main);
    this.spent = { calls: 0, tokens: 0 };
    this.at = "";
    this.last = "0";
    this.place();
  }

  /** The address under which this run can be watched again. */
  place() {
    history.replaceState(null, "", `/moot?thread=${this.thread}&run=${this.run ?? ""}`);
    this.state = h("p", { class: "state" }, "The debate begins.");
    this.stop = h("button", { type: "button", onclick: () => this.cancel() }, "Stop");
    this.view.bar.replaceChildren(this.stop, this.state);
    this.show();
  }

  get path() {
    return `/threads/${this.thread}/runs/${this.run}`;
  }

  /** Follows a stream of events to the run's end, joining it again wherever the connection is lost. */
  async follow(stream) {
    for (let failures = 0; ; ) {
      try {
        stream ??= events(`${this.path}/stream?stream_mode=updates&stream_mode=custom`, { last: this.last });
        for await (const event of stream) {
          failures = 0;
          this.take(event);
        }
        if (await this.isOver()) break;
      } catch (error) {
        if (error.status) return this.fail(error); // the server answered, and refused
        this.say(`${error.message} Trying again.`);
        await new Promise((resolve) => setTimeout(resolve, WAITS[Math.min(failures++, WAITS.length - 1)]));
      }
      stream = null;
    }
    return this.end();
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

  progress({ event, node, agent, round, calls, tokens }) {
    if (event === "step") {
      this.spent.calls += calls ?? 0;
      this.spent.tokens += tokens ?? 0;
    }
    const who = agent ? `${agent}: ` : "";
    const step = node === "open" ? "opening sources and models" : String(node).replaceAll("_", " ");
    this.state.textContent = `Round ${round}, ${who}${step} · ${this.spent.calls} calls, ${this.spent.tokens} tokens`;
    if (this.at !== `${round}`) announce(`Round ${round} begins.`);
    this.at = `${round}`;
  }

  show() {
    this.due ??= setTimeout(() => {
      this.due = null;
      if (!this.over) this.view.show({ settings: this.context ?? {}, ...this.debate });
    }, 100);
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
  async end() {
    const { values, tasks } = await ask(`/threads/${this.thread}/state`);
    const asked = (tasks ?? []).flatMap((task) => task.interrupts ?? []);
    fold(this.debate, values ?? {}); // what steps within the debate have said is not among its values yet
    if (!asked.length || this.stopped) return this.finish();
    this.show();
    this.asking = true;
    this.say("The debate waits for your answer.");
    this.view.slot.replaceChildren(question(asked, (resume) => this.resume(resume)));
    this.view.slot.querySelector("h2")?.focus();
  }

  async resume(resume) {
    const body = { ...STREAM, assistant_id: this.graph, command: { resume }, context: this.context ?? this.debate.settings };
    const stream = events(`/threads/${this.thread}/runs/stream`, { body });
    const { value } = await stream.next();
    this.asking = false;
    this.view.slot.replaceChildren();
    this.run = value.place?.split("/").pop();
    this.place();
    return this.follow(stream);
  }

  async finish() {
    try {
      await keep(this.view, this.thread);
      this.over = true;
      this.view.slot.replaceChildren(this.error ? fault(this.error) : "");
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error) {
    this.view.bar.replaceChildren();
    this.view.slot.replaceChildren(fault(this.error ? `${this.error} (${error.message})` : error.message));
  }
}
