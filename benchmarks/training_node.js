/** timedAssignments in Node: `node training_node.js TASK.json JOINED` prints what it answers as JSON. */
import { readFileSync } from "node:fs";
import process from "node:process";

import { timedAssignments } from "./training_run.js";

const [task, joined] = process.argv.slice(2).map((path) => readFileSync(path));
console.log(JSON.stringify(await timedAssignments(JSON.parse(String(task)), new Uint8Array(joined))));
