// Requests to the server: its routes for this page, and the LangGraph API.

import { t } from "./text.js";

/** The error of a failed request; status 0 means that the server did not answer. */
export class RequestError extends Error {
  constructor(detail, status) {
    super(detail);
    this.status = status;
  }
}

/** The JSON that a route returns. `body`, if given, is sent as JSON; `raw` is sent unchanged. */
export async function ask(path, { method, body, raw } = {}) {
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await request(path, {
    method: method ?? (sent === undefined ? "GET" : "POST"),
    headers: sent === undefined ? {} : { "content-type": "application/json" },
    body: sent,
  });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(t("The server cannot be reached. Is `moot serve` still running?"), 0);
  }
  if (!response.ok) throw new RequestError(await reason(response), response.status);
  return response;
}

async function reason(response) {
  const text = await response.text();
  try {
    const { detail } = JSON.parse(text);
    return typeof detail === "string" ? detail : JSON.stringify(detail);
  } catch {
    return text.slice(0, 500) || t("The server answered {status}.", { status: String(response.status) });
  }
}

/**
 * The events of a run: of a new run if `body` is given, else of an existing run after the event `last`. Requests with
 * the same `key` start only one run.
 */
export async function* events(path, { body, last, key } = {}) {
  const headers = body ? { "content-type": "application/json", ...(key && { "idempotency-key": key }) } : last ? { "last-event-id": last } : {};
  const response = await request(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  yield { event: "opened", place: response.headers.get("content-location") };
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let left = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (left + decoder.decode(value, { stream: true })).replaceAll("\r\n", "\n").split("\n\n");
      left = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event) yield event;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(t("The connection was lost."), 0);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Parses an event of a stream: {id, event, place, data}; null if the block is not an event. */
function parsed(block) {
  const fields = { data: [] };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.slice(0, colon) === "data") fields.data.push(value);
    else fields[line.slice(0, colon)] = value;
  }
  if (!fields.event) return null;
  const [event, ...place] = fields.event.split("|");
  return { id: fields.id, event, place, data: fields.data.length ? JSON.parse(fields.data.join("\n")) : null };
}
