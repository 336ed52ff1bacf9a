// The review of a finished check: what an editor decided, the form for a decision, and the history.

import { ask } from "./api.js";
import { announce, chip, fault, h } from "./dom.js";
import { when } from "./past.js";
import { rated, stage } from "./stage.js";
import { t } from "./text.js";

const FIELDS = { rating: t("Our rating"), title: t("Title"), summary: t("Summary"), context: t("Context"), look_again: t("Look again on"), to_readers: t("To readers"), note: t("Notes") };
const DONE = { save: t("Draft saved"), approve: t("Approved"), correct: t("Corrected"), withdraw: t("Withdrawn"), plan: t("Day to look again set"), comment: t("Commented on a passage"), recheck: t("Looked again") };
const done = ({ action }) => DONE[action] ?? action;
/** The actions of which a second editor must know before deciding. */
const DECIDES = ["save", "approve", "correct", "withdraw", "plan"];
const WRITTEN = ["rating", "title", "summary", "context"];
/** The numbers and the titles of the passages that the report shows. */
const passages = () => [...document.querySelectorAll(".src > li[id]")].map((item) => [item.id.slice(1), item.querySelector("h3").textContent]).sort(([one], [other]) => one - other);

/** Shows the panel of a check once its summary is there: a summary changes the numbers of sources, which editors write. */
export async function showReview(summary) {
  const place = document.getElementById("review");
  if (!place) return;
  if (summary) place.replaceChildren(h("h2", { id: "h-review" }, t("Review")), h("p", { class: "who" }, t("A summary of the debate is being written.")));
  await summary;
  const panel = new Panel(place);
  place.addEventListener("changed", () => panel.refresh());
  addEventListener("beforeunload", (event) => place.dataset.writing && event.preventDefault());
  try {
    panel.show(await ask(panel.route));
  } catch (error) {
    place.replaceChildren(h("h2", { id: "h-review" }, t("Review")), fault(error.message));
  }
}

class Panel {
  constructor(place) {
    this.place = place;
    this.route = `/moot/api/debates/${place.dataset.id}/review`;
  }

  /** Shows a review. `kept` are the fields that somebody is writing while another person changed the check. */
  show(review, kept = {}, told = []) {
    this.review = review;
    const name = review.stage;
    this.problem = h("div", {}, told);
    const last = review.history.at(-1);
    const who = last ? t("{what}: {name}, {time}.", { what: done(last), name: last.person, time: when(new Date(last.at)) }) : t("Nobody has looked at it. Reports and tables say “not reviewed”.");
    const parts = [
      h("div", { class: "head" }, h("h2", { id: "h-review", tabindex: -1 }, t("Review")), stage(name)),
      review.fault ? fault(review.fault) : h("p", { class: "who", dir: "auto" }, who),
      review.other_version && h("p", { class: "warning small" }, h("b", {}, t("The last decision is about another version of this check.")), " ", t("What you decide now is about this one.")),
      review.other_words && /\[\d/.test(review.words.summary + review.words.context) && h("p", { class: "warning small" }, t("The words below were written for another version: look at the numbers of their sources.")),
      this.problem,
      !review.fault && this.#form(kept),
      !review.fault && review.actions.includes("comment") && this.#comment(kept),
      !review.fault && review.history.length > 0 && this.#history(),
    ];
    this.place.replaceChildren(...parts.filter(Boolean));
  }

  #form(kept) {
    const { review } = this;
    const { actions, words, machine, scale, warnings, person, may_approve: mayApprove, has_ended: hasEnded } = review;
    const value = (name) => kept[name] ?? words[name] ?? "";
    const area = (id, rows, text) => h("textarea", { id, rows, dir: "auto", maxlength: 10000 }, text);
    const about = h("p", { class: "full", id: "rating-about" });
    const rating = h("select", { id: "rating", "aria-describedby": "rating-about", onchange: () => describe() }, h("option", { value: "" }, t("No rating yet")), scale.map((step) => h("option", { value: step.rating }, step.chip.word)));
    const known = scale.some((step) => step.rating === value("rating"));
    if (value("rating") && !known) rating.append(h("option", { value: value("rating") }, value("rating")));
    rating.value = value("rating");
    const describe = () => (about.textContent = scale.find((step) => step.rating === rating.value)?.about ?? "");
    describe();
    const inputs = { rating, title: h("input", { type: "text", id: "title", dir: "auto", maxlength: 300, value: value("title") }), summary: area("summary", 6, value("summary")), context: area("context", 3, value("context")), note: area("note", 2, kept.note ?? ""), to_readers: area("to-readers", 3, kept.to_readers ?? ""), look_again: h("input", { type: "date", id: "look-again", min: this.review.today, value: value("look_again") }) };
    this.inputs = inputs;
    this.boxes = warnings.map((one, n) => [one.kind, h("input", { type: "checkbox", id: `ack-${n}`, checked: words.acknowledged.includes(one.kind) })]);
    const field = (input, name, more) => h("div", { class: "field" }, h("label", { for: input.id }, name), input, more && h("small", { class: "quiet" }, more));
    const take = machine.summary && h("button", { type: "button", class: "link", onclick: () => (inputs.summary.value = machine.summary) }, t("Take the machine’s"));
    const button = (action, words, main) => actions.includes(action) && h("button", { type: "button", class: main ? "btn main" : "btn", onclick: (event) => this.#do(event, action) }, words);
    const may = (one) => actions.includes(one);
    const isDraft = !may("correct") && !may("withdraw");
    const acknowledged = (may("approve") || may("correct")) && warnings.length > 0 && h("fieldset", {}, h("legend", {}, t("I read these warnings, and decide in spite of them:")), warnings.map((one, n) => h("div", { class: "ok" }, this.boxes[n][1], h("label", { for: `ack-${n}`, dir: "auto" }, one.lead))));
    const ours = [h("label", { for: "rating" }, t("Our rating")), rating, about];
    const step = scale.find((one) => one.rating === words.rating);
    const given = review.stage === "withdrawn" || !words.rating ? t("none") : rated(step?.chip ?? { kind: "text", word: words.rating });
    const beside = h("div", { class: "beside" }, h("b", {}, t("Machine’s verdict")), h("span", {}, chip(machine.chip)), isDraft && may("save") ? ours : [h("b", {}, t("Our rating")), h("span", {}, given)]);
    const written = [field(inputs.title, t("Title")), field(inputs.summary, t("Summary"), [t("For readers. [1] names a source of the report."), " ", take]), field(inputs.context, t("Context"), t("Shown to readers. Not checked by the machine."))];
    const later = () => h("details", { class: "fold", open: [...WRITTEN, "to_readers"].some((name) => name in kept) }, h("summary", {}, h("span", { class: "nb" }, t("Correct or withdraw it"))), h("div", { class: "inside" }, h("div", { class: "beside" }, ours), written, field(inputs.to_readers, t("To readers: why it is corrected or withdrawn"), t("Needed for both; shown in the report.")), acknowledged, h("div", { class: "acts" }, hasEnded && button("correct", t("Correct"), true), button("withdraw", t("Withdraw")))));
    return h(
      "form",
      { "aria-labelledby": "h-review", onsubmit: (event) => event.preventDefault(), oninput: () => (this.place.dataset.writing = "yes") },
      beside,
      isDraft ? may("save") && written : later(),
      field(inputs.note, t("Notes"), t("Only for the house; never in a report. An archive for another moot has them.")),
      field(inputs.look_again, t("Look again on")),
      isDraft && acknowledged,
      may("approve") && !hasEnded && h("p", { class: "small warning" }, h("b", {}, t("This check has not ended.")), " ", t("It can be approved once it has.")),
      h("div", { class: "acts" }, hasEnded && button("approve", t("Approve"), true), button("save", t("Save draft")), !may("save") && button("plan", t("Only set the day"))),
      h("p", { class: "who" }, this.#whose(person, mayApprove, may("approve"))),
    );
  }

  /** A comment on a passage. It is sent alone: what was written in the form stays there. */
  #comment(kept) {
    const listed = passages();
    if (!listed.length) return null;
    const place = h("select", { id: "passage" }, listed.map(([number, title]) => h("option", { value: number }, `[${number}] ${title}`)));
    if (kept.passage) place.value = kept.passage;
    const text = h("textarea", { id: "comment", rows: 2, required: true, dir: "auto", maxlength: 10000 }, kept.comment ?? "");
    Object.assign(this.inputs, { passage: place, comment: text });
    const send = (event) => {
      event.preventDefault();
      this.#send(event.submitter, "comment", { passage: place.value, note: text.value });
    };
    const field = (input, words) => h("div", { class: "field" }, h("label", { for: input.id }, words), input);
    return h("details", { class: "fold", open: Boolean(kept.comment) }, h("summary", {}, h("span", { class: "nb" }, t("Comment on a passage"))), h("form", { class: "inside", "aria-label": t("Comment on a passage"), onsubmit: send, oninput: () => (this.place.dataset.writing = "yes") }, field(place, t("Passage")), field(text, t("Comment, only for the house")), h("div", { class: "acts" }, h("button", { class: "btn" }, t("Add the comment")))));
  }

  #whose(person, mayApprove, canApprove) {
    if (!person) return [t("Nobody is named who decides here:"), " ", h("code", {}, "moot config set editor NAME")];
    if (!mayApprove) return t("You decide as {name}. You may not approve here; a draft is seen by those who may.", { name: person });
    return canApprove ? t("Approving puts your name, {name}, and today’s date on the report.", { name: person }) : t("You decide as {name}.", { name: person });
  }

  /** What was written, without fields that stay as they are. */
  #written(action) {
    const { words, other_words: anyway } = this.review;
    const { note, to_readers: toReaders, look_again: day } = this.inputs;
    const change = {};
    if (action === "save" || action === "approve" || action === "correct") {
      for (const name of WRITTEN) if (anyway || this.inputs[name].value !== (words[name] ?? "")) change[name] = this.inputs[name].value;
      const checked = this.boxes.filter(([, box]) => box.checked).map(([kind]) => kind);
      change.acknowledged = [...new Set(checked)];
    }
    if (day.value !== (words.look_again ?? "")) change.look_again = day.value || null;
    if (note.value.trim()) change.note = note.value;
    if (action === "correct" || action === "withdraw") change.to_readers = toReaders.value;
    return change;
  }

  async #do({ target }, action) {
    const box = this.boxes.find(([, one]) => !one.checked);
    if ((action === "approve" || action === "correct") && box) {
      this.problem.replaceChildren(fault(t("Read the warnings first, and tick each: nothing is approved in passing over one.")));
      return box[1].focus();
    }
    const { words } = this.review;
    if ((action === "withdraw" || action === "plan") && WRITTEN.some((name) => this.inputs[name].value !== (words[name] ?? ""))) {
      return this.problem.replaceChildren(fault(t("Words were changed, which this would not save: press Correct, or take your changes back.")));
    }
    if (this.inputs.comment?.value.trim()) {
      this.problem.replaceChildren(fault(t("A comment on a passage was written, which this would not save: add it, or take it back.")));
      return this.inputs.comment.focus();
    }
    await this.#send(target, action, this.#written(action));
  }

  async #send(button, action, change) {
    button.disabled = true;
    this.problem.replaceChildren();
    try {
      await ask(this.route, { body: { action, based_on: this.review.number, ...change } });
    } catch (error) {
      button.disabled = false;
      this.problem.replaceChildren(fault(error.message));
      if (error.status === 409) await this.refresh(error.message);
      return this.problem.scrollIntoView({ block: "nearest" });
    }
    announce(`${DONE[action]}.`);
    if (action === "comment") {
      this.inputs.comment.value = "";
      await this.refresh();
      return this.place.querySelector("h2").focus();
    }
    delete this.place.dataset.writing;
    location.reload(); // the report has the new words
  }

  /** The fields in which somebody has written. */
  #kept() {
    const values = Object.entries(this.inputs).filter(([name]) => name !== "passage" || this.inputs.comment.value).map(([name, input]) => [name, input.value]);
    return Object.fromEntries(values.filter(([name, value]) => value !== (this.review.words[name] ?? "")));
  }

  /**
   * Shows the newest history; what was written here stays until its writer decides. If somebody else has decided
   * meanwhile, or `refused` says so, it also shows what they did.
   */
  async refresh(refused = "") {
    const { number: seen } = this.review;
    try {
      const review = await ask(this.route);
      const kept = this.inputs ? this.#kept() : {};
      const newer = review.history.filter((entry) => entry.number > seen);
      const isWritten = Object.keys(kept).length > 0;
      if (!isWritten) delete this.place.dataset.writing;
      if (!refused && !(isWritten && newer.some((entry) => DECIDES.includes(entry.action)))) return this.show(review, kept);
      const theirs = h("button", { type: "button", class: "btn slim", onclick: () => this.show(review, kept.comment && { comment: kept.comment, passage: kept.passage }) }, t("Take theirs"));
      this.show(review, kept, [fault(refused || t("The check was changed since you opened it.")), h("ol", { class: "newer" }, newer.map((entry) => h("li", {}, entryOf(entry, review)))), h("p", { class: "small" }, t("What you wrote is still below. Decide again, or take theirs.")), theirs]);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
    }
  }

  #history() {
    const rows = this.review.history.toReversed().map((entry) => h("tr", {}, h("th", { scope: "row", class: "when" }, h("time", { datetime: entry.at }, when(new Date(entry.at)))), h("td", { class: "by" }, h("bdi", {}, entry.person)), h("td", {}, entryOf(entry, this.review, false))));
    return h("details", { class: "fold", open: true }, h("summary", {}, h("span", { class: "nb" }, t("History")), h("span", { class: "quiet" }, t("who changed what, newest first"))), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("History") }, h("table", { class: "answers hist" }, h("thead", {}, h("tr", {}, [t("When"), t("Who"), t("What")].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))));
  }
}

/** What an entry changed, from what to what. */
function entryOf(entry, { warnings, scale, passages: numbers }, named = true) {
  const read = entry.acknowledged.map((kind) => warnings.find((one) => one.kind === kind)?.lead ?? kind);
  const changed = Object.entries(FIELDS).filter(([name]) => name in entry.changes && name !== "note" && name !== "to_readers");
  const line = ([name, words]) => {
    const [before, after] = name === "rating" ? entry.changes[name].map((rating) => scale.find((step) => step.rating === rating)?.chip.word ?? rating) : entry.changes[name];
    return h("span", { class: "changed", dir: "auto" }, `${words}: `, before && [h("del", {}, before), " "], after ? h("ins", {}, after) : t("none"));
  };
  const number = numbers[entry.passage];
  const passage = number ? h("a", { href: `#s${number}` }, t("Passage [{number}]", { number })) : t("A passage of another version");
  const told = [entry.passage && passage, entry.to_readers && [`${FIELDS.to_readers}: `, h("bdi", {}, entry.to_readers)], entry.note && [`${FIELDS.note}: `, h("bdi", { lang: entry.action === "recheck" ? "en" : null }, entry.note)], "acknowledged" in entry.changes && entry.acknowledged.length > 0 && t("In spite of: {warnings}", { warnings: read.join(" ") })];
  return [h("b", {}, named ? t("{what}: {name}, {time}.", { what: done(entry), name: entry.person, time: when(new Date(entry.at)) }) : done(entry)), changed.map(line), told.filter(Boolean).map((text) => h("span", { class: "changed", dir: "auto" }, text))];
}
