// A search for the claims of a text: starting, rejoining after a reload or a lost connection, stopping, resuming.

import { ask, events } from "./api.js";
import { h, move } from "./dom.js";
import { DebateView } from "./view.js";
import { resumer } from "./result.js";
import { t } from "./text.js";

const STREAM = { stream_mode: ["custom", "updates"], stream_resumable: true, on_disconnect: "continue", multitask_strategy: "reject" };
const KEPT = "moot-finding";
/** Milliseconds before each attempt to rejoin a run; the last one repeats. */
const WAITS = [500, 1000, 2000, 4000, 8000];
/** Words for times that depend on a text's date of publication. */
const RELATIVE = /\b(yesterday|today|ago|(last|this|next) (year|month|week|summer|winter|spring|autumn))\b/i;
const UNDATED = t("The text's date of publication is not known, so words like “last year” are left unchanged. Give it under More options, and find the claims again.");

/** Finds the claims of a text; `request` says how to check them later. Returns a list in the form of `claims.js`. */
export async function begin(main, read, request) {
  const { model, max_cost: most } = request.context;
  const context = { ...(model && { model }), ...(most && { max_cost: most }) };
  const { thread_id: thread } = await ask("/threads", { body: {} });
  const first = events(`/threads/${thread}/runs/stream`, { body: { ...STREAM, assistant_id: "find_claims", input: read, context } });
  const { value } = await first.next(); // a refused request throws here, before anything is shown
  sessionStorage.setItem(KEPT, JSON.stringify({ thread, request }));
  move(`/moot/claims?thread=${thread}`);
  return new Finding(main, { thread, run: value.place?.split("/").pop(), read, opened: Date.now() }).follow(request, first);
}

/**
 * Joins a search that was started before; returns its list of claims. If the search has failed or was stopped, shows
 * what the user can do, and returns null. `fresh(model)` makes the request for later checks if this tab has none.
 */
export async function join(main, thread, fresh) {
  const place = `/threads/${encodeURIComponent(thread)}`;
  const [{ values }, [last]] = await Promise.all([ask(`${place}/state`), ask(`${place}/runs?limit=1`)]).catch(explainMissing);
  const read = values?.text ? values : last?.kwargs?.input;
  if (!read?.text) throw new Error(t("There is no search for claims on this thread."));
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  const request = kept?.thread === thread ? kept.request : await fresh(last?.kwargs?.context?.model);
  const finding = new Finding(main, { thread, run: last?.run_id, read, opened: Date.parse(last?.created_at) || Date.now() });
  const goes = last && ["running", "pending"].includes(last.status);
  try {
    return goes ? await finding.follow(request, null) : finding.claimList(request, values);
  } catch (error) {
    finding.offer(error.message);
    return null;
  }
}

function explainMissing(error) {
  if (error.status !== 404) throw error;
  throw new Error(t("The server no longer has this search. Paste the same text again to continue it: you do not pay again for answered calls."));
}

class Finding {
  constructor(main, { thread, run, read, opened }) {
    Object.assign(this, { thread, run, read, opened, parts: 1, ended: 0, calls: 0, last: "0" });
    this.view = new DebateView(main);
    this.bar = h("div", { class: "meter", role: "progressbar", "aria-label": t("Parts read"), "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, h("i", {}));
    this.view.title.textContent = nameOf(read);
    document.title = `${nameOf(read)} - moot`;
    this.stop = h("button", { type: "button", class: "btn", onclick: () => this.cancel() }, t("Stop"));
    this.view.acts.replaceChildren(this.stop);
    this.view.slot.replaceChildren(this.bar);
    this.say(t("Reading the text."));
  }

  get path() {
    return `/threads/${this.thread}/runs/${this.run}`;
  }

  say(now, next = t("Next: you tick the claims to check.")) {
    this.view.say(now, next);
  }

  /** Follows a stream of events to the run's end, and rejoins it if the connection is lost; returns the list. */
  async follow(request, stream) {
    const ticking = setInterval(() => this.tick(), 1000);
    try {
      for (let failures = 0; ; ) {
        try {
          stream ??= events(`${this.path}/stream?stream_mode=${encodeURIComponent(JSON.stringify(STREAM.stream_mode))}`, { last: this.last });
          for await (const event of stream) {
            failures = 0;
            this.take(event);
          }
          const { status } = await ask(this.path);
          if (status !== "running" && status !== "pending") break;
        } catch (error) {
          if (error.status !== 0) throw error; // the server refused the request
          this.say(`${error.message} ${t("Trying again.")}`, t("The search continues on the server."));
          await new Promise((resolve) => setTimeout(resolve, WAITS[Math.min(failures++, WAITS.length - 1)]));
        }
        stream = null;
      }
      const { values } = await ask(`/threads/${this.thread}/state`);
      return this.claimList(request, values);
    } finally {
      clearInterval(ticking);
    }
  }

  take({ id, event, data }) {
    if (id) this.last = id;
    if (event === "error") this.error = data?.message ?? data?.error;
    if (event === "updates" && data?.read_text?.parts) this.parts = Math.max(1, data.read_text.parts.length);
    if (event !== "custom" || data?.event !== "step") return;
    this.ended += 1;
    this.calls += data.calls ?? 0;
    this.view.spent.textContent = String(this.calls);
    const percent = Math.min(100, Math.round((100 * this.ended) / (3 * this.parts + 3))); // each part has three steps, and the text has three more
    this.bar.setAttribute("aria-valuenow", percent);
    this.bar.firstChild.style.flex = `0 0 ${percent}%`;
    if (!this.stopped) this.say(this.parts === 1 ? t("Finding claims: {percent}% of the text.", { percent }) : t("Finding claims: {percent}% of {count} parts.", { percent, count: this.parts }));
  }

  tick() {
    const seconds = Math.max(0, Math.round((Date.now() - this.opened) / 1000));
    this.view.clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  async cancel() {
    [this.stop.disabled, this.stopped] = [true, true];
    this.say(t("Stopping."), t("Answered calls are stored."));
    await ask(`${this.path}/cancel?wait=true&action=interrupt`, { body: {} }).catch((error) => this.say(error.message));
  }

  /** The list of claims of a finished search; throws an error if the search has not finished. */
  claimList(request, values) {
    if (values?.status !== "done") {
      throw new Error(this.stopped ? t("Stopped. Paste the same text again to continue it: you do not pay again for answered calls.") : (this.error ?? values?.error?.detail ?? t("The search was stopped before its end.")));
    }
    sessionStorage.removeItem(KEPT);
    history.replaceState(null, "", "/moot/claims");
    const { claims, left_out: left = [], dropped = [], unread = [], parts = [], warnings = [], date } = values;
    const problems = [];
    if (unread.length) problems.push(t("{part} of {count} parts could not be read by the model.", { part: unread.length, count: parts.length }));
    if (dropped.length) problems.push(t("{count} claims were dropped: they are not in the text, or their quote has another claim.", { count: dropped.length }));
    problems.push(...warnings.filter((one) => one.kind === "document_noted").map((one) => one.detail));
    const some = left.map((one) => ({ ...one, claim: one.quote, date, ticked: false, left: true }));
    const byline = warnings.find((one) => one.kind === "byline_date")?.detail ?? "";
    const told = !date && claims.some((one) => RELATIVE.test(one.claim)) ? UNDATED : byline;
    return { source: nameOf(this.read), url: this.read.url ?? "", request, claims: [...claims.map((one) => ({ ...one, ticked: true })), ...some], problems, told };
  }

  /** Says that the search is unfinished, and offers to resume it. */
  offer(why) {
    this.view.status.remove();
    this.view.slot.replaceChildren(
      h("section", { class: "msg" }, h("h2", {}, t("The claims are not found yet")), h("p", { role: "alert" }, why), h("p", {}, t("Answered calls are stored, and you do not pay for them again.")), h("div", { class: "acts" }, resumer(this.thread, nameOf(this.read)), h("a", { class: "btn", href: "/moot" }, t("New check")))),
    );
  }
}

/** A text's name: its title, its file, or its first line. */
export function nameOf(read) {
  const line = read.title || read.source || (read.text.split("\n").find((one) => one.trim())?.trim() ?? t("the text"));
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
