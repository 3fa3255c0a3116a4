/** timedAssignments in a Worker. */
import { timedAssignments } from "./training_run.js";

onunhandledrejection = ({ reason }) => reportError(reason);

onmessage = async ({ data: task }) => {
  const joined = new Uint8Array(await (await fetch("/input")).arrayBuffer());
  postMessage(await timedAssignments(task, joined));
};
