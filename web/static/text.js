// The page's texts in the user's language. Code has them in English; the server adds those of the page's language.

import texts from "/moot/static/texts.js";

const LANGUAGE = document.documentElement.lang;
/** The page's locale, with the same dates, lists and digits as reports have. */
export const PLACE = { en: "en-GB", ar: "ar-EG-u-nu-latn" }[LANGUAGE] ?? LANGUAGE;
const plural = new Intl.PluralRules(LANGUAGE);
const figures = new Intl.NumberFormat(PLACE);

/** Letters that are written from right to left, and those that are not. */
const RTL = /[\p{Script=Arabic}\p{Script=Hebrew}]/u;
const LTR = /\p{L}/u;

/** A value in a text, isolated if its letters have the other direction. */
function shown(value) {
  if (typeof value === "number") return figures.format(value);
  const text = String(value);
  return (document.documentElement.dir === "rtl" ? LTR.test(text) && !RTL.test(text) : RTL.test(text)) ? `\u2068${text}\u2069` : text;
}

/** A text in the page's language, with values in its {placeholders}. `count` decides on the plural. */
export function t(text, values = {}) {
  const found = texts[text] ?? text;
  const form = typeof found === "string" ? found : (found[plural.select(values.count)] ?? found.other);
  return form.replace(/\{(\w+)\}/g, (whole, name) => (values[name] === undefined || values[name] === null ? whole : shown(values[name])));
}
