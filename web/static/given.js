// The user's own texts as evidence: typed, pasted, or read from files.

import { ask } from "./api.js";
import { fault, h } from "./dom.js";
import { t } from "./text.js";

const KINDS = ".pdf,.html,.docx,.xlsx,.csv,.txt,.md,.jsonl";
let count = 0;

/** A field for several texts; `read` returns the non-empty texts in the form of the input `given`. */
export class TextsField {
  constructor(changed = () => {}) {
    this.changed = changed;
    this.rows = [];
    this.documents = [];
    this.list = h("div", {});
    this.problem = h("div", {});
    this.button = h("button", { type: "button", class: "btn slim", onclick: () => this.add({}).title.focus() }, t("Add a text"));
    const id = `texts-${(count += 1)}`;
    const files = h("input", { type: "file", id, multiple: true, accept: KINDS });
    files.addEventListener("change", () => this.take(files));
    this.node = h("div", { class: "texts", oninput: () => this.changed() }, this.list, this.problem, h("div", { class: "bar" }, this.button, h("label", { for: id }, t("or choose files"), h("span", { class: "quiet tiny" }, ` (${KINDS.replaceAll(",", ", ")})`)), files));
  }

  /** Adds a row for a text; fields without an input, such as `url`, are kept. */
  add(given) {
    const number = (count += 1);
    const title = h("input", { id: `title-${number}`, type: "text", dir: "auto", maxlength: 4000, autocomplete: "off" });
    const text = h("textarea", { id: `text-${number}`, rows: 4, dir: "auto" });
    [title.value, text.value] = [given.title ?? "", given.text ?? ""];
    const remove = () => {
      this.rows = this.rows.filter((one) => one !== row);
      row.node.remove();
      this.#name();
      this.button.focus();
      this.changed();
    };
    const legend = h("legend", {});
    const node = h("fieldset", {}, legend, field(t("Title"), title), field(t("Text"), text), given.note && h("p", { role: "status" }, given.note), h("button", { type: "button", class: "link", onclick: remove }, t("Remove")));
    const row = { given, title, text, legend, node };
    this.rows.push(row);
    this.list.append(node);
    this.#name();
    return row;
  }

  /** Adds a row for a document; each of its pages or sections is a text that is sent unchanged. */
  #document(name, texts) {
    const length = texts.reduce((sum, one) => sum + one.text.length, 0);
    const what = `${name}: ${texts[0].page ? t("{count} pages", { count: texts.length }) : t("{count} sections", { count: texts.length })}, ${t("{count} characters", { count: length })}`;
    const remove = () => {
      this.documents = this.documents.filter((one) => one !== row);
      node.remove();
      this.button.focus();
      this.changed();
    };
    const shown = texts.map((one) => h("p", { dir: "auto" }, h("b", {}, [one.page && t("Page {number}", { number: one.page }), one.heading].filter(Boolean).join(", ")), ` ${one.text}`));
    const note = texts[0].note && h("p", { role: "status" }, texts[0].note);
    const node = h("fieldset", {}, h("legend", {}, name), note, h("details", {}, h("summary", {}, what), shown), h("button", { type: "button", class: "link", onclick: remove }, t("Remove")));
    const row = { texts };
    this.documents.push(row);
    this.list.append(node);
  }

  #name() {
    this.rows.forEach(({ legend, title }, i) => (legend.textContent = title.placeholder = t("Text {number}", { number: i + 1 })));
  }

  async take(files) {
    this.problem.replaceChildren();
    for (const file of files.files) {
      try {
        const texts = await ask(`/moot/api/texts?name=${encodeURIComponent(file.name)}`, { raw: file });
        if (texts.some((one) => one.page || one.heading)) this.#document(file.name, texts);
        else texts.forEach((one) => this.add(one));
      } catch (error) {
        this.problem.append(fault(error.message));
      }
    }
    files.value = "";
    this.changed();
  }

  /** The number of non-empty texts. */
  get count() {
    return this.rows.filter(({ text }) => text.value.trim()).length + this.documents.length;
  }

  read() {
    const typed = this.rows.flatMap(({ given, title, text }) => {
      if (text.value.trim()) return [{ ...given, title: title.value.trim() || title.placeholder, text: text.value }];
      if (!title.value.trim()) return [];
      throw new Error(`${title.placeholder}: ${t("it has a title but no text. Write its text, or remove it.")}`);
    });
    return [...typed, ...this.documents.flatMap((one) => one.texts)];
  }
}

function field(name, input) {
  return h("div", { class: "field" }, h("label", { for: input.id }, name), input);
}
