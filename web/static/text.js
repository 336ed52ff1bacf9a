// The page's texts in the user's language. Code has them in English; the server adds those of the page's language.

import texts from "/moot/static/texts.js";

const LANGUAGE = document.documentElement.lang;
/** The page's locale, with the same dates, lists and digits as reports have. */
export const PLACE = { en: "en-GB", ar: "ar-EG-u-nu-latn" }[LANGUAGE] ?? LANGUAGE;
const plural = new Intl.PluralRules(LANGUAGE);
const figures = new Intl.NumberFormat(PLACE);

/** A text in the page's language, with values in its {placeholders}. `count` decides on the plural. */
export function t(text, values = {}) {
  const found = texts[text] ?? text;
  const form = typeof found === "string" ? found : (found[plural.select(values.count)] ?? found.other);
  return form.replace(/\{(\w+)\}/g, (whole, name) => (typeof values[name] === "number" ? figures.format(values[name]) : (values[name] ?? whole)));
}
