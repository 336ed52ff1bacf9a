// What the page shows follows from its address.

import { newDebate } from "./form.js";
import { watch } from "./live.js";
import { pastDebate, pastDebates } from "./past.js";
import { fault } from "./dom.js";

const main = document.getElementById("main");
const [, , section, id] = location.pathname.split("/");
const asked = new URLSearchParams(location.search);

async function start() {
  if (section === "debates" && id) return pastDebate(main, id);
  if (section === "debates") return pastDebates(main, Number(asked.get("page") ?? 1));
  if (asked.has("thread")) return watch(main, asked.get("thread"));
  return newDebate(main);
}

for (const anchor of document.querySelectorAll("nav a")) {
  if (anchor.pathname === location.pathname && !asked.has("thread")) anchor.setAttribute("aria-current", "page");
}
// A link to a piece of evidence unfolds its card.
addEventListener("hashchange", unfold);
function unfold() {
  const card = document.getElementById(location.hash.slice(1));
  if (card?.localName === "details") {
    card.open = true;
    card.querySelector("summary").focus();
  }
}

start().then(unfold, (error) => main.append(fault(error.message)));
