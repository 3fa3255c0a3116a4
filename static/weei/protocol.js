/**
 * Names, fields and limits of what a peer and the server say to each other (docs/protocol.md), and of what the page,
 * its control Worker and a training Worker say to one another. Twin of weei_core/protocol.py.
 */
/** @typedef {import("./types.js").ServerMessage} ServerMessage */

export const PROTOCOL_VERSION = 1;
export const MAX_MESSAGE_BYTES = 65_536;
export const MAX_SNAPSHOT_BYTES = 32_768;
export const MAX_SNAPSHOT_TEXT = 300;
export const MAX_SNAPSHOT_METRICS = 64;
export const HELLO_SECONDS = 5;
export const HEARTBEAT_SECONDS = 5;
export const POLL_SECONDS = 10;
export const LEASE_SECONDS = 30;
export const INLINE_WEIGHT_BYTES = 16_384;
export const SLICE_BYTES = 8 * 1024 * 1024;

export const Close = Object.freeze({ hello: 4000, replaced: 4001, unauthorized: 4003, protocol: 4009 });

export const Client = Object.freeze({ hello: "hello", heartbeat: "heartbeat", diagnostics: "diagnostics", watch: "watch" });
export const Server = Object.freeze({ welcome: "welcome", state: "state", job: "job", live: "live", error: "error" });

/** Topics of the server's `job` hint, in the order pages list them. */
export const TOPICS = Object.freeze(["status", "round", "participants", "checkpoints", "invitations", "settings", "events"]);

/** page → control Worker. A `call` is answered by exactly one `answer` with its id. */
export const ToControl = Object.freeze({ call: "call" });
/** control Worker → page */
export const FromControl = Object.freeze({ state: "state", hint: "hint", live: "live", log: "log", upload: "upload", answer: "answer" });
/** control Worker, or a page that predicts → training Worker, and back */
export const ToTrainer = Object.freeze({ train: "train", inspect: "inspect", predict: "predict" });
export const FromTrainer = Object.freeze({ stage: "stage", progress: "progress", result: "result", failed: "failed" });

const UUID = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;

/** @typedef {(value: unknown) => boolean} Check */
/** @type {Record<string, Check>} */
const is = {
  text: (v) => typeof v === "string",
  token: (v) => typeof v === "string" && v.length <= 200,
  flag: (v) => typeof v === "boolean",
  whole: (v) => Number.isInteger(v),
  number: (v) => typeof v === "number" && Number.isFinite(v),
  object: isObject,
  uuid: (v) => typeof v === "string" && UUID.test(v),
  texts: (v) => Array.isArray(v) && v.every((item) => typeof item === "string"),
  objects: (v) => isObject(v) && Object.values(/** @type {object} */ (v)).every(isObject),
};

/**
 * Fields of each message: "type", "type?" (may be absent or null) or "type|null" (must be there).
 * @type {{client: Record<string, Record<string, string>>, server: Record<string, Record<string, string>>}}
 */
const FIELDS = {
  client: {
    hello: { protocol: "whole", token: "token", train: "flag", session: "whole?", attemptId: "uuid?", watch: "uuid?", user: "token?" },
    heartbeat: {},
    diagnostics: { snapshot: "object" },
    watch: { jobId: "uuid|null" },
  },
  server: {
    welcome: {
      protocol: "whole",
      peerId: "text",
      session: "whole",
      sequence: "whole",
      heartbeatSeconds: "number",
      pollSeconds: "number",
    },
    state: { peerId: "text", session: "whole", invitations: "texts", job: "object|null", assignment: "object|null" },
    job: { jobId: "text", what: "texts" },
    live: { jobId: "text", peers: "objects" },
    error: { code: "text", message: "text", re: "text?" },
  },
};

/** A frame that does not fit: the sentence says which field and why. */
export class InvalidMessage extends Error {
  /** @param {string} message @param {string} field */
  constructor(message, field) {
    super(message);
    this.name = "InvalidMessage";
    this.field = field;
    this.code = "invalid_message";
  }
}

/** @param {unknown} value */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * @param {Record<string, Record<string, string>>} side
 * @param {string} text
 * @returns {Record<string, any>}
 */
function parse(side, text) {
  if (typeof text !== "string") throw new InvalidMessage("A message must be a text frame.", "message");
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InvalidMessage("A message must be JSON.", "message");
  }
  if (!isObject(value)) throw new InvalidMessage("A message must be a JSON object with a type.", "message");
  const fields = typeof value.type === "string" && Object.hasOwn(side, value.type) ? side[value.type] : undefined;
  if (!fields) throw new InvalidMessage(`message.type: ${JSON.stringify(value.type)} is not a message of this side.`, "type");
  checkFields(value, fields);
  return value;
}

/** @param {Record<string, unknown>} value @param {Record<string, string>} fields */
function checkFields(value, fields) {
  for (const name of Object.keys(value)) {
    if (name !== "type" && !Object.hasOwn(fields, name)) {
      throw new InvalidMessage(`message.${name}: unknown field of ${value.type}.`, name);
    }
  }
  for (const [name, rule] of Object.entries(fields)) {
    const kind = rule.replace(/\?$|\|null$/, "");
    const found = value[name];
    if (found === undefined && !rule.endsWith("?")) throw new InvalidMessage(`message.${name}: missing.`, name);
    if (found === undefined || (found === null && kind !== rule)) continue;
    if (!(/** @type {Check} */ (is[kind])(found))) throw new InvalidMessage(`message.${name}: must be ${kind}.`, name);
  }
}

/** Guard of the server's side; used by tests and fakes. @param {string} text */
export function parseClientMessage(text) {
  return parse(FIELDS.client, text);
}

/**
 * Guard of this side.
 * @param {string} text
 * @returns {ServerMessage}
 */
export function parseServerMessage(text) {
  return /** @type {ServerMessage} */ (parse(FIELDS.server, text));
}

/**
 * The text of a message to the server, checked before it is sent.
 * @param {{type: string} & Record<string, unknown>} message
 */
export function clientMessage(message) {
  const text = JSON.stringify(message);
  parseClientMessage(text);
  return text;
}
