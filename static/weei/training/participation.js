/** What a page shows of this device, from the server's state and the running diagnostics. */
import { secondsLeft } from "./clock.js";

/**
 * @param {{peerJob: import("../types.js").PeerJob | null, diagnostics: import("./snapshot.js").Diagnostics, connected: boolean, replaced: boolean,
 *   error: string | null}} of
 * @returns {import("../types.js").Participation}
 */
export function participationOf({ peerJob, diagnostics, connected, replaced, error }) {
  const { processedExamples, totalExamples, currentExamplesPerSecond } = diagnostics.performance();
  const total = totalExamples === "unknown" ? null : totalExamples;
  const left = secondsLeft(processedExamples, total, currentExamplesPerSecond);
  return {
    stage: diagnostics.clock.stage,
    assignment: diagnostics.assignment,
    processedExamples,
    totalExamples: total,
    examplesPerSecond: currentExamplesPerSecond,
    metrics: diagnostics.metrics,
    ...(left === undefined ? {} : { secondsLeft: left }),
    waitingFor: peerJob?.waitingFor ?? null,
    connected,
    replaced,
    paused: peerJob?.pausedByPeer ?? false,
    error: error ?? diagnostics.error ?? peerJob?.error ?? null,
    job: peerJob && jobFacts(peerJob),
  };
}

/** @param {import("../types.js").PeerJob} job */
function jobFacts({ id, name, status, round, state, unit = null, passesDone, plannedPasses }) {
  return { id, name, status, round, state, unit, passesDone, plannedPasses };
}
