/** What the server tells of jobs and checkpoints, as tests/golden/state.json says that it does. */

const SHA256 = "ab".repeat(32);
const AT = 1_764_421_200_000;
const SETTINGS = { epochs: 3, localEpochs: 1, batchSize: 16, coordinatorParticipates: true };

/** @param {string} id @param {Record<string, any>} [change] */
export const wireJob = (id, change = {}) => ({
  id,
  name: "Digits",
  status: "running",
  modelId: "digits",
  modelName: "Digits",
  round: 2,
  createdAt: AT,
  completedAt: null,
  role: "coordinator",
  owner: "me",
  info: { id: "digits", version: "1.0.0", name: "Digits", abiVersion: 1, weightFormat: "float32-le", metrics: [] },
  settings: SETTINGS,
  waitingFor: "Round 2: 0 received, waiting for c1.",
  error: null,
  incomplete: false,
  shuffled: false,
  transitioning: false,
  validating: /** @type {number[]} */ ([]),
  seed: "7",
  module: { fileName: "digits.wasm", bytes: 20_480, sha256: SHA256 },
  hasModuleFile: true,
  hasValidationFile: true,
  validationUnavailable: false,
  canValidate: true,
  datasetEpoch: 0,
  queue: { pass: 0, cursor: 2, order: null, requeued: ["c1@0+64"] },
  progress: { datasetEpoch: 0, plannedEpochs: 3, remainingChunks: 3, totalChunks: 4, running: true, estimatedRemainingMs: 12_000 },
  roundsDone: 1,
  roundsEstimate: 12,
  participants: {
    me: { label: "Firefox", role: "coordinator", connected: true, approved: true, trains: true, paused: false, state: "training" },
    other: { label: "Chrome", role: "participant", connected: false, approved: true, trains: true, paused: false, state: "disconnected", error: "no memory" },
  },
  slots: [
    { peerId: "me", chunkId: "c1", status: "training", startedAt: AT },
    { peerId: "other", chunkId: "c2", status: "stopped", startedAt: AT, error: "it trapped" },
  ],
  peers: ["me", "other", "guest"],
  held: [{ item: 1, position: 0, errors: 3, error: "it trapped" }],
  ...change,
});

/** @param {number} round @param {Record<string, any>} [change] */
export const wireCheckpoint = (round, change = {}) => ({
  artifact: { round, sha256: SHA256, bytes: 16, fileName: `round-${round}.weei-checkpoint` },
  metrics: { values: { loss: 1 / (round + 1) }, examplesProcessed: 64 },
  validation: "none",
  datasetEpoch: 0,
  datasetProgress: round / 4,
  remainingItems: 4,
  remaining: { pass: 0, cursor: round % 5, order: null, requeued: /** @type {string[]} */ ([]) },
  settings: SETTINGS,
  createdAt: AT,
  ...change,
});
