// The view of a running debate: the agents' answers, the rounds and the evidence, in the server's words.

import { chip, h, icon, slices, spoken, sync } from "./dom.js";
import { t } from "./text.js";

/** With more debaters than this, the table has a row for each answer, not for each debater. */
const MANY = 8;
/** The number of turns that are drawn between two checks of the elapsed time. */
const A_FEW = 10;
/** Rounds that have not begun have columns only if the debate has at most this many rounds. */
const MOST_COLUMNS = 6;

/** Shows a debate in an element, and updates it while the debate runs. */
export class DebateView {
  constructor(root) {
    this.open = new Set();
    this.left = 0;
    this.title = h("h1", { class: "claimline", dir: "auto" });
    this.sign = h("span", {}, icon("run"));
    this.now = h("b", {}, t("The check begins."));
    this.next = h("p", {});
    this.clock = h("dd", {}, "0:00");
    this.clockName = h("dt", {}, t("Elapsed"));
    this.spent = h("dd", {}, t("none yet"));
    this.acts = h("div", { class: "acts" });
    this.status = h("div", { class: "status" }, h("div", { class: "now" }, this.sign, h("div", {}, h("p", { role: "status" }, this.now), this.next)), h("div", { class: "meters" }, h("dl", {}, h("div", {}, this.clockName, this.clock), h("div", {}, h("dt", {}, t("Model calls")), this.spent)), this.acts));
    this.slot = h("div", {});
    this.warned = h("div", { class: "warned" });
    this.answers = h("div", {});
    this.rounds = h("div", { class: "rounds" });
    this.found = h("p", { class: "small quiet" });
    this.sources = h("ol", {});
    this.drawer = h("aside", { class: "drawer", "aria-labelledby": "evidence", tabindex: 0, hidden: true }, h("h2", { class: "h", id: "evidence" }, t("Evidence")), this.found, this.sources);
    root.replaceChildren(this.title, this.status, this.slot, h("div", { class: "cols" }, h("div", {}, this.answers, this.warned, this.rounds), this.drawer));
  }

  /** Shows the current step, and the next one. */
  say(now, next = "") {
    if (this.now.textContent !== now) this.now.textContent = now;
    this.next.textContent = next;
  }

  /** Sets the running steps, {agent, round, doing}[]. Draws only the table of answers again. */
  working(all) {
    this.busy = all;
    if (this.told) this.#drawAnswers();
  }

  /** `told` is the server's description of the debate; `more` is called if the user unfolds another round. */
  async show(told, more) {
    Object.assign(this, { told, more });
    sync(this.warned, told.warned.map(([lead, said]) => ({ key: lead + said, state: 0, make: () => h("p", { class: "warning small", dir: "auto" }, h("b", {}, lead), ` ${said}`) })));
    this.#drawAnswers();
    const breath = slices();
    const last = told.parts.length - 1;
    const shown = told.parts.map((part, i) => ({ part, last: i === last })).reverse();
    sync(this.rounds, shown.filter(({ part, last }) => last || part.summary_line || part.round || part.cards.length).map(({ part, last }) => ({ key: part.heading, state: [last], make: () => this.#round(part, last) })));
    for (const { part, last } of shown) await this.#fill(part, last, breath);
    this.#evidence();
  }

  // --- the agents' answers ---

  #drawAnswers() {
    const { names, timeline, most, declared } = this.told;
    const busy = this.busy ?? [];
    const now = (this.at = Math.max(0, ...busy.map(({ round }) => round ?? 0)) || this.at || 0); // between two steps, the round stays the same
    const rounds = [...(timeline?.rounds ?? [])];
    const decided = timeline && timeline.columns.length > rounds.length;
    const many = declared > MANY || (timeline && !timeline.rows.some((row) => Object.values(names).some(([name]) => name === row.who)));
    if (now && !rounds.includes(now)) rounds.push(now);
    const later = most && most <= MOST_COLUMNS && !decided ? Array.from({ length: most }, (_, i) => i + 1).filter((one) => one > Math.max(0, ...rounds)) : [];
    const rows = new Map((timeline?.rows ?? []).map((row) => [row.who, row]));
    if (!many) for (const [name, about] of Object.values(names).slice(0, declared)) if (!rows.has(name)) rows.set(name, { who: name, about, cells: [] });
    if (!rows.size) return this.answers.replaceChildren();
    const work = new Map(busy.filter(({ agent }) => agent).map((one) => [names[one.agent]?.[0] ?? one.agent, one]));
    const atWork = many ? busy.filter(({ agent, round }) => agent && round === now).length : 0;
    const state = [[...rows.values()], rounds, later, now, [...work].map(([who, one]) => [who, one.round, one.doing]), atWork, timeline?.why];
    sync(this.answers, [{ key: "answers", state, make: () => this.#table({ rows, rounds, later, now, work, atWork, decided, many }) }]);
    this.#scroll(now);
  }

  #table({ rows, rounds, later, now, work, atWork, decided, many }) {
    const { columns = [], rounds: told = [] } = this.told.timeline ?? {};
    const name = (round, i) => (told.length > 1 && i < told.length ? columns[i] : rounds.length + later.length > 1 || round > 1 ? t("Round {number}", { number: round }) : t("Answer")); // a gate's own columns have names
    const title = (round, i) => name(round, i) + (round === now ? t(", now") : "");
    const here = (round) => (round === now ? "here" : null);
    const cell = (row, round, i) => {
      const known = row.cells[i];
      const doing = work.get(row.who);
      const answered = known && (known.chips.length || known.note);
      const busy = doing && doing.round === round && !answered && h("span", { class: "cell on" }, icon("run"), ` ${doing.doing}`);
      return h("td", { class: here(round) }, busy || (answered ? cellOf(known) : h("span", { class: "cell" }, round === now && !many ? t("to come") : "")));
    };
    const decision = (row) => decided && h("td", {}, row.cells.length ? cellOf(row.cells.at(-1)) : ""); // an agent that never answered has no cells
    const body = [...rows.values()].map((row) => h("tr", {}, h("th", { scope: "row", class: "who" }, row.who, row.about && h("small", {}, row.about)), rounds.map((round, i) => cell(row, round, i)), later.map((round) => h("td", {}, h("span", { class: "cell" }, round === 1 ? t("to come") : t("if needed")))), decision(row)));
    if (atWork) body.push(h("tr", {}, h("th", { scope: "row", class: "who quiet" }, t("At work")), rounds.map((round) => h("td", { class: here(round) }, round === now && h("span", { class: "cell on" }, icon("run"), " ", t("{count} agents", { count: atWork }))))));
    const why = (this.told.timeline?.why ?? []).slice(0, rounds.length);
    if (why.some(Boolean)) body.push(h("tr", {}, h("th", { scope: "row", class: "who quiet" }, t("Why it continued")), h("td", { class: "quiet tiny", colspan: rounds.length + later.length + (decided ? 1 : 0) }, why.map((one, i) => one && h("p", {}, name(rounds[i], i), `: ${one}`)))));
    const head = [...rounds.map((round, i) => h("th", { scope: "col", class: here(round) }, title(round, i))), ...later.map((round) => h("th", { scope: "col" }, title(round))), decided && h("th", { scope: "col" }, t("Decision"))];
    const region = h("div", { class: "scroll holding", tabindex: 0, role: "region", "aria-label": t("Who answers what"), onscroll: () => (this.left = region.scrollLeft) }); // reading it later would force a layout
    region.style.setProperty("--columns", rounds.length + later.length + (decided ? 1 : 0));
    region.append(h("table", { class: "answers" }, h("caption", { class: "vh" }, t("Who answers what in each round")), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, many ? t("Answer") : t("Who")), head)), h("tbody", {}, body)));
    return region;
  }

  /** Scrolls to a new round on a narrow screen; else keeps the user's scroll position. */
  #scroll(now) {
    const region = this.answers.firstChild;
    const here = now !== this.sighted && region.querySelector("th.here");
    if (here) region.scrollLeft = here.offsetLeft + here.offsetWidth - region.clientWidth;
    else if (this.left && region !== this.region) region.scrollLeft = this.left;
    if (here) this.sighted = now;
    this.region = region;
  }

  // --- rounds ---

  #round(part, last) {
    const body = h("div", { class: "turns" });
    const notes = h("div", { class: "notes small quiet" });
    if (last) return h("section", { class: "round" }, h("h2", { class: "h" }, part.heading), body, notes);
    const fold = h("details", { class: "fold", open: this.open.has(part.heading) }, h("summary", {}, h("span", { class: "nb" }, part.heading), h("span", { class: "quiet" })), body, notes);
    fold.addEventListener("toggle", () => {
      if (fold.open === this.open.has(part.heading)) return;
      this.open[fold.open ? "add" : "delete"](part.heading);
      if (fold.open) this.more();
    });
    return fold;
  }

  async #fill(part, last, breath) {
    const node = [...this.rounds.children].find((one) => (one.querySelector("h2.h, summary > .nb")?.textContent ?? "") === part.heading);
    if (!node) return;
    if (!last) node.querySelector("summary .quiet").textContent = [part.summary_line, this.#why(part.heading)].filter(Boolean).join(". ");
    if (!last && !part.cards.length) return; // not requested, or not received yet
    const turns = node.querySelector(".turns");
    const cards = part.cards.map((card, i) => ({ key: `${card.who} ${i}`, state: card, make: () => cardOf(card) }));
    for (let some = turns.children.length + A_FEW; some < cards.length; some += A_FEW) {
      sync(turns, cards.slice(0, some));
      await breath();
    }
    sync(turns, cards);
    sync(node.querySelector(".notes"), part.notes.map((one, i) => ({ key: i, state: one, make: () => h("p", { class: "note", dir: "auto", lang: one[0] }, spoken(one[1])) })));
  }

  #why(heading) {
    const { timeline } = this.told;
    const at = timeline?.columns.indexOf(heading) ?? -1;
    return at < 0 ? "" : timeline.why[at];
  }

  // --- evidence ---

  #evidence() {
    const { sources, count, quoted } = this.told;
    this.drawer.hidden = !count;
    this.found.textContent = t("{count} passages so far, {quoted} of them quoted", { count, quoted });
    sync(this.sources, sources.map((one) => ({ key: one.number, state: one, make: () => sourceOf(one) })));
  }
}

function cellOf({ chips, was, note }) {
  return [chips.map((one) => [chip(one), " "]), was && h("small", {}, was), note && h("small", {}, note)];
}

function cardOf({ who, chips, items }) {
  const told = items.map((item, i) => [item.label !== items[i - 1]?.label && h("dt", {}, item.label), h("dd", { class: item.bad ? "bad" : null }, item.bad && [icon("warn"), " "], item.found.length ? h("ul", {}, item.found.map(([number, title]) => h("li", { dir: "auto" }, title, " ", spoken([["", number]])))) : h("span", { class: "words", dir: "auto" }, spoken(item.said)))]);
  return h("article", { class: "turn" }, h("h3", {}, h("span", {}, who), chips.map(chip)), h("dl", {}, told));
}

function sourceOf({ number, title, about, by, quotes }) {
  const facts = [about, by.length ? t("quoted by {names}", { names: by.join(", ") }) : t("not quoted yet")].filter(Boolean).join(" · ");
  return h("li", { id: `s${number}` }, h("span", { class: "num" }, number), h("div", {}, h("b", { dir: "auto" }, title), h("small", {}, facts), quotes.map((one) => h("p", {}, h("q", { dir: "auto" }, h("mark", {}, one))))));
}
