// The stage of a check's review, and an editor's rating, as the panel and lists show them.

import { h, icon } from "./dom.js";
import { t } from "./text.js";

/** The icon and the words of each stage. */
export const STAGES = {
  new: ["new", t("Not reviewed")],
  in_review: ["rev", t("In review")],
  approved: ["app", t("Approved")],
  corrected: ["cor", t("Corrected")],
  withdrawn: ["wd", t("Withdrawn")],
  damaged: ["warn", t("History changed by hand")],
};
/** A stage as a pill. */
export function stage(name) {
  const [drawn, words] = STAGES[name];
  return h("span", { class: `stage ${drawn}` }, icon(drawn), words);
}

/** A rating of the house's scale: with shape and colour if it is tied to an answer, else in quotation marks, in ink. */
export function rated({ kind, word }) {
  return h("span", { class: `chip ${kind}`, dir: "auto" }, kind === "text" ? t("“{answer}”", { answer: word }) : [icon(kind), word]);
}
