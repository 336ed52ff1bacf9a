// The debating graph of a round (which agent hears which), as a drawing and as a table.

import { figure, h, svg } from "./dom.js";
import { t } from "./text.js";

const SIZE = 300;
const RADIUS = 125;
const DOT = 17;

/** The debating graph of a round ({round, weights: {reader: {source: weight}}, kept: {reader: [source]}}). */
export function graphOf(entry) {
  const readers = Object.keys(entry.kept ?? {});
  if (!readers.length) return null;
  const caption = t("Who hears whom in round {number}: the weights, and the kept edges", { number: entry.round });
  return h("figure", { class: "graph" }, picture(entry, readers), h("details", { open: true }, h("summary", {}, t("Weights as a table")), table(entry, readers)), h("figcaption", {}, caption));
}

function weight(entry, reader, source) {
  const value = entry.weights?.[reader]?.[source];
  return typeof value === "number" ? value : null;
}

function picture(entry, names) {
  const place = new Map(names.map((name, i) => [name, at((i / names.length) * 2 * Math.PI - Math.PI / 2)]));
  const all = names.flatMap((reader) => names.map((source) => weight(entry, reader, source) ?? 0));
  const largest = Math.max(...all, 1e-9);
  const edges = names.flatMap((reader) =>
    names.filter((source) => source !== reader).map((source) => edge(place, reader, source, weight(entry, reader, source), largest, entry.kept[reader].includes(source))),
  );
  const dots = names.map((name, i) => {
    const [x, y] = place.get(name);
    return svg("g", {}, svg("circle", { cx: x, cy: y, r: DOT }), svg("text", { x, y: y + 5, "text-anchor": "middle" }, String(i + 1)));
  });
  const head = svg("marker", { id: `head-${entry.round}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z" }));
  const label = t("Kept edges: {edges}.", { edges: names.map((r) => t("{name} hears {others}", { name: r, others: entry.kept[r].join(", ") || t("nobody") })).join("; ") });
  const legend = h("ol", { class: "names" }, names.map((name) => h("li", {}, name)));
  return h("div", { class: "picture" }, svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": label }, svg("defs", {}, head), edges.filter(Boolean), dots), legend);

  function edge(place, reader, source, value, largest, kept) {
    if (value === null && !kept) return null;
    const [[x1, y1], [x2, y2]] = [place.get(source), place.get(reader)];
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
    const [sx, sy] = [-uy * 4, ux * 4]; // keeps the two directions of a pair apart
    const ends = { x1: x1 + ux * DOT + sx, y1: y1 + uy * DOT + sy, x2: x2 - ux * DOT + sx, y2: y2 - uy * DOT + sy };
    const width = kept ? 1 + (3 * (value ?? largest)) / largest : 1;
    return svg("line", { ...ends, class: kept ? "kept" : "dropped", "stroke-width": width, "marker-end": kept ? `url(#head-${entry.round})` : null }, svg("title", {}, `${reader} ${kept ? "hears" : "does not hear"} ${source}: ${figure(value)}`));
  }
}

function at(angle) {
  return [SIZE / 2 + RADIUS * Math.cos(angle), SIZE / 2 + RADIUS * Math.sin(angle)];
}

function table(entry, names) {
  const cell = (reader, source) => {
    if (reader === source) return h("td", {}, "-");
    const value = weight(entry, reader, source);
    const kept = entry.kept[reader].includes(source);
    return h("td", { class: kept ? "kept" : null }, value === null ? "" : figure(value), kept ? (" " + t("kept")) : "");
  };
  return h(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": t("Weights of round {number}", { number: entry.round }) },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("hears")), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, names.map((reader) => h("tr", {}, h("th", { scope: "row" }, reader), names.map((source) => cell(reader, source))))),
    ),
  );
}
