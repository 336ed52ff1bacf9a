// Shows the view that belongs to the page's address.

import { batchPage } from "./batch.js";
import { claimsPage, fromHome } from "./claims.js";
import { showError } from "./dom.js";
import { newCheck } from "./home.js";
import { watch } from "./live.js";
import { pastChecks } from "./past.js";
import { showActions } from "./result.js";
import { showReview } from "./review.js";

const main = document.querySelector("main");
const [, , section, id] = location.pathname.split("/");
const asked = new URLSearchParams(location.search);

async function start() {
  if (section === "example") return;
  if (section === "debates" && id) {
    return showReview(showActions());
  }
  if (section === "debates") return pastChecks(main, asked);
  if (section === "batches") return batchPage(main, id, asked);
  if (section === "claims") return claimsPage(main, asked.get("thread"));
  if (asked.has("thread")) return watch(main, asked.get("thread"));
  return newCheck(main, asked.get("again"), fromHome);
}

for (const anchor of document.querySelectorAll("nav a:not(.name)")) {
  if (anchor.pathname === location.pathname.replace(/batches\/.*/, "claims") && (section === "claims" || !asked.has("thread"))) anchor.setAttribute("aria-current", "page");
}
document.getElementById("language").addEventListener("change", ({ target }) => {
  document.cookie = `moot-language=${target.value}; path=/moot; samesite=lax; max-age=${target.value ? 31536000 : 0}`;
  location.reload();
});
// A link to a source unfolds the elements that contain it, and its passage.
addEventListener("hashchange", unfold);
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  for (let fold = target?.querySelector("details.passage") ?? target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}

start().then(unfold, (error) => showError(main, error));
