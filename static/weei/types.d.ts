// Shapes that several modules share; read by tsc only. Wire shapes are docs/protocol.md.

export type { DraftState, FileProgress } from "./weei.js";

export interface ArtifactRef {
  sha256: string;
  bytes: number;
}

export interface NamedArtifact extends ArtifactRef {
  fileName: string;
}

/** What fills one of the model's auxiliary slots; a file has a name, a snapshot has none. */
export interface AuxiliaryRef extends ArtifactRef {
  id: string;
  role?: string;
  fileName?: string;
}

/** A slot as the model declares it: a file by its hash, or a snapshot by a rule. */
export interface AuxiliarySlot {
  id: string;
  bytes: number;
  sha256?: string;
  source?: { kind: "initial" | "checkpoint"; roundsAgo?: number };
}

export interface Assignment {
  attemptId: string;
  assignmentId: string;
  jobId: string;
  round: number;
  chunkId: string;
  exampleCount: number;
  moduleSha256: string;
  weights: ArtifactRef & { inline?: string };
  data?: (ArtifactRef & { format: string; recordStart?: number; recordCount?: number }) | null;
  experience?: { seed: string; unitStart: number; unitCount: number } | null;
  /** All slots in declared order, snapshots included. */
  auxiliary: AuxiliaryRef[];
  /** JSON text that goes into the module's request as it stands. */
  settings: string;
  seed?: string;
  split: number;
  backend: string;
  secondsLeft: number;
}

export interface PeerJob {
  id: string;
  name: string;
  status: string;
  round: number;
  role: string;
  trains: boolean;
  state: string;
  ready: boolean;
  pausedByPeer: boolean;
  pausedByCoordinator: boolean;
  module: NamedArtifact;
  /** Shaders of the package's archive, when the coordinator gave it to the job. */
  wgsl: { present: boolean; sha256: string[] };
  /** The slots that files fill. */
  auxiliary: AuxiliaryRef[];
  /** What an experience model plays; null for a dataset job. */
  unit?: { id: string; label: string } | null;
  workers: number;
  stallMinutes: number;
  waitingFor: string | null;
  passesDone: number;
  plannedPasses: number;
  error: string | null;
}

export interface PeerState {
  peerId: string;
  session: number;
  invitations: string[];
  job: PeerJob | null;
  assignment: Assignment | null;
}

export interface Welcome {
  type: "welcome";
  protocol: number;
  peerId: string;
  session: number;
  sequence: number;
  heartbeatSeconds: number;
  pollSeconds: number;
}

export type ServerMessage =
  | Welcome
  | ({ type: "state" } & PeerState)
  | { type: "job"; jobId: string; what: string[] }
  | { type: "live"; jobId: string; peers: Record<string, { snapshot: Snapshot; heldMs: number; connected: boolean }> }
  | { type: "error"; code: string; message: string; re?: string | null };

export interface ModelInfo {
  id: string;
  version: string;
  name: string;
  maxWorkers?: number;
  metrics?: Array<{ id: string; label: string; direction: string }>;
  auxiliaryWeights?: AuxiliarySlot[];
  workSource?: { inputs: "none" | "dataset"; unit: { id: string; label: string } };
  [key: string]: unknown;
}

export interface TrainReport {
  processedExamples: number;
  totalExamples?: number;
  optimizerSteps?: number;
  metrics?: Record<string, number>;
}

export interface TrainResult {
  weights: { pointer: number; bytes: number };
  metrics: Record<string, number>;
  examplesProcessed: number;
  uniqueExamples: number;
  optimizerSteps?: number;
}

export interface Snapshot {
  schemaVersion: 1;
  sequence: number;
  measuredAt: number;
  environment: {
    browser: string;
    browserVersion: string;
    os: string;
    logicalCores: number | "unknown";
  };
  execution: {
    requested: DevicePreferences["backendPreference"];
    actual: "cpu" | "gpu" | "hybrid" | "unknown";
    backend: string;
    fallbackReason: string | null;
    activeWorkers: number;
    workerLimit: number;
  };
  gpu: {
    webgpu: "available" | "unavailable";
    adapter: { vendor: string; architecture: string; device: string; description: string } | "unknown";
    memoryBudgetMiB: number;
    initializationError: string | null;
  };
  model: { id: string; version: string; wasmSha256: string; wgsl: { present: boolean; sha256: string[] } } | "unknown";
  assignment: AssignmentFacts | null;
  stage: Stage;
  error: string | null;
  timings: {
    preparationMs: number | null;
    compilationMs: number | null;
    trainingMs: number | null;
    uploadMs: number | null;
  };
  performance: {
    processedExamples: number;
    totalExamples: number | "unknown";
    optimizerSteps: number | "unknown";
    currentExamplesPerSecond: number | null;
    averageExamplesPerSecond: number | null;
    lastProgressAt: number | null;
  };
  /** Latest values that the module reported while training; pages show them as progress. */
  metrics: Record<string, number> | null;
}

export interface AssignmentFacts {
  jobId: string;
  round: number;
  assignmentId: string;
  attemptId: string;
  chunkId: string;
  bytes: number;
  exampleCount: number;
  batchSize: number;
  localEpochs: number;
  learningRate: number | "unknown";
}

export type Stage =
  | "waiting"
  | "receiving"
  | "preparing"
  | "compiling"
  | "training"
  | "uploading"
  | "awaitingAggregation"
  | "error";

export interface DevicePreferences {
  maxLocalWorkers: number;
  backendPreference: "auto" | "cpu" | "gpu" | "hybrid";
  gpuMemoryBudgetMiB: number;
}

export interface Transfer {
  jobId: string;
  peerId: string;
  artifactId: string;
  direction: "send" | "receive";
  bytes: number;
  totalBytes: number;
  bytesPerSecond: number;
  remainingSeconds?: number;
}

export interface Participation {
  stage: Stage;
  assignment: AssignmentFacts | null;
  processedExamples: number;
  totalExamples: number | null;
  examplesPerSecond: number | null;
  /** Latest values the module reported while training. */
  metrics: Record<string, number> | null;
  secondsLeft?: number;
  waitingFor: string | null;
  connected: boolean;
  replaced: boolean;
  paused: boolean;
  error: string | null;
  job: Pick<PeerJob, "id" | "name" | "status" | "round" | "state" | "unit" | "passesDone" | "plannedPasses"> | null;
}

/** What the control Worker tells its page. */
export interface ControlState {
  peerId: string;
  sessionState: "offline" | "connecting" | "connected" | "replaced" | "signedOut" | "outdated";
  invitations: string[];
  peerJob: PeerJob | null;
  participation: Participation;
  snapshot: Snapshot | null;
  transfers: Transfer[];
  transferErrors: Record<string, string>;
  activeWorkers: number;
}

export interface Environment {
  browser: string;
  browserVersion: string;
  os: string;
  logicalCores: number | "unknown";
  webgpu: "available" | "unavailable";
}
