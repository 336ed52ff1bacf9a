// Continues a finished debate from an earlier step with other evidence: a new branch of its thread's history.

import { ask } from "./api.js";
import { fault, h } from "./dom.js";
import { overwrite } from "./state.js";
import { evidence as choosing } from "./question.js";
import { t } from "./text.js";

/** A form for a new branch; `go` is called with the branch's checkpoint and values. */
export async function branchForm(thread, go) {
  const history = await ask(`/threads/${thread}/history`, { body: { limit: 100 } });
  const steps = history.filter(({ next, values }) => next.length && !next.includes("close") && values.evidence?.length);
  if (!steps.length) return fault(t("This debate has no step that can be repeated with other evidence."));
  const named = ({ next, values }) => [...new Set(next)].join(", ").replaceAll("_", " ") + (values.rounds ? ` ${t("(after round {number})", { number: values.rounds })}` : "");
  const step = h("select", { id: "step", onchange: () => choose() }, steps.map((one, i) => h("option", { value: i }, named(one))));
  const pieces = h("div", {});
  const problem = h("div", {});
  const button = h("button", { type: "submit", class: "btn main" }, t("Continue from this step"));
  let reply;
  const choose = () => {
    const { node, read } = choosing({ evidence: steps[step.value].values.evidence.filter((piece) => !piece.struck) });
    reply = read;
    pieces.replaceChildren(...node);
  };
  const send = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await go(...(await branched(thread, steps[step.value], reply())));
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      button.disabled = false;
    }
  };
  choose();
  return h("form", { class: "question", "aria-labelledby": "branch", onsubmit: send }, h("h2", { id: "branch", tabindex: -1 }, t("Repeat a step with other evidence")), h("div", { class: "field" }, h("label", { for: "step" }, t("Repeat the debate from this step")), step), pieces, problem, h("div", { class: "bar" }, button));
}

/** Writes the branch's state. Records the change as a person's turn, as in a debate that asks a person. */
async function branched(thread, { values, checkpoint }, { strike, add }) {
  if (!strike.length && !add.length) throw new Error(t("Strike a piece of evidence, or add a text."));
  const added = add.length ? await ask("/moot/api/added", { body: add }) : [];
  const struck = values.evidence.map((piece) => (strike.includes(piece.id) ? { ...piece, struck: true } : piece));
  const { round, phase } = values.turns.at(-1) ?? { round: 0, phase: "primary" };
  const number = values.turns.filter((turn) => turn.step === "review_evidence").length + 1;
  const turn = { round, phase, agent: "person", step: "review_evidence", number, role: "person", side: null, query: null, evidence_ids: values.evidence.map(({ id }) => id), scores: {}, about: "Another branch.", struck: strike, added: added.map(({ id }) => id) };
  const evidence = [...struck, ...added];
  const made = await ask(`/threads/${thread}/state`, { body: { checkpoint, values: { evidence: overwrite(evidence), turns: [turn] } } });
  return [made.checkpoint, { ...values, evidence, turns: [...values.turns, turn] }];
}
