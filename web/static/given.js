// Texts of one's own, as evidence: typed, pasted, or read from files.

import { fault, h } from "./dom.js";

let count = 0;

/** A field for several texts; `read` gives those that hold something, as the input `given` takes them. */
export class Texts {
  constructor() {
    this.rows = [];
    this.list = h("div", {});
    this.problem = h("div", {});
    this.button = h("button", { type: "button", onclick: () => this.add({}).title.focus() }, "Add a text");
    const id = `texts-${(count += 1)}`;
    const files = h("input", { type: "file", id, multiple: true, accept: ".txt,.md,.jsonl,text/plain,text/markdown" });
    files.addEventListener("change", () => this.take(files));
    this.node = h("div", {}, this.list, this.problem, h("div", { class: "bar" }, this.button, h("label", { for: id }, "or choose files (.txt, .md, .jsonl)"), files));
  }

  /** A row for a text; what else is known of it is kept. */
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
    };
    const legend = h("legend", {});
    const node = h("fieldset", {}, legend, field("Title", title), field("Text", text), h("button", { type: "button", class: "plain", onclick: remove }, "Remove"));
    const row = { given, title, text, legend, node };
    this.rows.push(row);
    this.list.append(node);
    this.#name();
    return row;
  }

  #name() {
    this.rows.forEach(({ legend, title }, i) => (legend.textContent = title.placeholder = `Text ${i + 1}`));
  }

  async take(files) {
    this.problem.replaceChildren();
    for (const file of files.files) {
      try {
        (await textsOf(file)).forEach((one) => this.add(one));
      } catch (error) {
        this.problem.append(fault(`${file.name}: ${error.message}`));
      }
    }
    files.value = "";
  }

  read() {
    return this.rows.flatMap(({ given, title, text }) => {
      if (text.value.trim()) return [{ ...given, title: title.value.trim() || title.placeholder, text: text.value }];
      if (!title.value.trim()) return [];
      throw new Error(`${title.placeholder}: it has a title, but holds nothing. Write its text, or remove it.`);
    });
  }
}

function field(name, input) {
  return h("div", { class: "field" }, h("label", { for: input.id }, name), input);
}

/** A file's texts, as the command line's `--given` reads it. */
async function textsOf(file) {
  const kind = file.name.split(".").pop().toLowerCase();
  if (!["txt", "md", "jsonl"].includes(kind)) throw new Error("Choose a .txt, .md or .jsonl file.");
  const text = decoded(await file.arrayBuffer());
  if (kind !== "jsonl") return [{ text, title: file.name.slice(0, -kind.length - 1), source: file.name }];
  return text.split("\n").flatMap((line, i) => (line.trim() ? [lineOf(line, i + 1)] : []));
}

function decoded(content) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    throw new Error("Not UTF-8 text. Save the file as UTF-8.");
  }
}

function lineOf(line, number) {
  let value;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new Error(`Line ${number}: no valid JSON (${error.message}).`);
  }
  if (typeof value?.text !== "string") throw new Error(`Line ${number}: no object with a \`text\`.`);
  return value;
}
