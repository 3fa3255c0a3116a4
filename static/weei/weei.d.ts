// The public face of weei.js for programs in TypeScript, and what tsc holds the implementation against.
// docs/js-api.md says what each method does.

export function loadWeei(): Promise<Weei>;

declare global {
  interface Window {
    weeiReady: Promise<Weei>;
    loadWeei: typeof loadWeei;
  }
}

export interface Weei {
  widgetsApi: WidgetsApi;
  /** Hide or show whatever window of Weei is open. Training goes on. */
  setVisibility(visible: boolean): void;
  /** Why `widgetsApi.get()` answers `undefined` on this page, as a sentence; `null` when it does not. */
  readonly reason: string | null;
  /** On another site's page: the name of the person for whom it acts, or `null`. */
  readonly user: string | null;
  /** On another site's page: a popup of Weei asks the person. To be called while a click is handled. */
  signIn(): Promise<void>;
  /** This page forgets the person, and the server its token. */
  signOut(): Promise<void>;
}

export interface WidgetsApi {
  /** `undefined` when the widget is not enabled for this site, or for this user. */
  get(id: "distributed-training"): DistributedTraining | undefined;
  get(id: string): unknown;
  /** Open the built-in interface. The API needs no window. */
  enable(id: "distributed-training"): Promise<void>;
  enable(id: string): Promise<void>;
}

export interface DistributedTraining {
  getState(): TrainingState;
  subscribe(listener: (state: TrainingState) => void): () => void;

  createJob(files: TrainingJobFiles): Promise<TrainingJob>;
  continueFromCheckpoint(files: ContinuedJobFiles): Promise<TrainingJob>;
  start(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  finish(): Promise<void>;
  leave(): Promise<void>;
  updateSettings(settings: Partial<TrainingSettings>): Promise<void>;
  shuffleChunks(): Promise<void>;
  runValidation(round?: number): Promise<void>;
  retryItem(item: number): Promise<void>;
  skipItem(item: number): Promise<void>;

  openInvitation(token: string): Promise<Invitation>;
  decideInvitation(jobId: string, accepted: boolean): Promise<void>;
  pauseContribution(): Promise<void>;
  resumeContribution(): Promise<void>;
  trainHere(): Promise<void>;

  invite(peerId: string): Promise<void>;
  createInvitation(options?: { uses?: number; expiresAt?: string | number }): Promise<NewInvitationLink>;
  listInvitations(): Promise<InvitationLink[]>;
  revokeInvitation(id: string): Promise<InvitationLink[]>;
  removeParticipant(peerId: string): Promise<void>;
  pauseParticipant(peerId: string, paused: boolean): Promise<void>;

  setBackendPreference(preference: BackendPreference): Promise<void>;
  setMaxLocalWorkers(workers: number): Promise<void>;
  setGpuMemoryBudgetMiB(mebibytes: number): Promise<void>;

  exportCheckpoint(round?: number): Promise<File>;
  exportModule(): Promise<File>;

  /** What this browser profile did, oldest first: at most 1,000 events. */
  getDebugLog(): TrainingDebugEvent[];
  clearDebugLog(): void;
  exportDebugLog(): File;

  listSavedJobs(): Promise<SavedJob[]>;
  openJob(id: string): Promise<TrainingJob>;
  watch(id: string | null): Promise<void>;
  deleteJob(id: string): Promise<void>;
  loadCheckpoints(): Promise<void>;
  getStorageInventory(): Promise<StorageInventory>;
}

export type BackendPreference = "auto" | "cpu" | "gpu" | "hybrid";
export type Later<T> = T | Promise<T>;

export interface TrainingJobFiles {
  name?: string;
  wasm: Later<File>;
  manifest: Later<File>;
  files: Later<Array<Later<File>>>;
  settings: TrainingSettings;
  validation?: Later<File | undefined>;
  executionFiles?: Later<Array<Later<File>> | undefined>;
  /** `false`: the job is made and followed, but not opened in this browser, which may take part in another one. */
  open?: boolean;
}

export interface ContinuedJobFiles extends TrainingJobFiles {
  checkpoint: Later<File>;
  datasetMode: "new" | "resume";
}

export interface TrainingSettings {
  epochs: number;
  localEpochs: number;
  batchSize: number;
  learningRate?: number;
  validationSchedule?: { enabled: boolean; unit: "round" | "epoch"; every: number };
  coordinatorParticipates: boolean;
  aggregation?: AggregationSettings;
  experience?: { unitsPerAssignment: number };
  workers?: number;
  stragglerFactor?: number;
  seed?: string;
}

export type AggregationSettings =
  | { method: "fedavg" }
  | { method: "fedavgm"; serverLearningRate?: number; momentum?: number }
  | { method: "fedadam"; serverLearningRate?: number; beta1?: number; beta2?: number; epsilon?: number };

export interface TrainingState {
  ready: true;
  myPeerId: string;
  busy: boolean;
  preparing: boolean;
  transitioning: boolean;
  evaluating: boolean;
  error?: string;
  peers: string[];
  invitations: Array<[jobId: string, invitation: JobInvitationState]>;
  progress: Record<string, PeerProgress>;
  liveMetrics: Record<string, LivePoint[]>;
  transfers: TransferProgress[];
  transferErrors: Record<string, string>;
  estimatedRemainingMs?: number;
  pausedContribution: boolean;
  activeWorkers: number;
  backendPreference: BackendPreference;
  execution: { requested: string; actual: string; phase: string; fallback: string };
  maxLocalWorkers: number;
  gpuMemoryBudgetMiB: number;
  diagnostics: Record<string, PeerExecutionDiagnostics>;
  job?: TrainingJob;
  participation: Participation;
  upload: FileProgress[];
  draft: DraftState | null;
  checkpointsPage: { complete: boolean };
}

export interface LivePoint {
  at: number;
  values: Record<string, number>;
}

export interface TrainingJob {
  id: string;
  role: "coordinator" | "participant";
  status: "ready" | "running" | "paused" | "completed";
  owner: string;
  info: ModelInfo;
  settings: TrainingSettings;
  participants: Record<string, ParticipantState>;
  progress?: {
    datasetEpoch: number;
    plannedEpochs: number;
    remainingChunks: number;
    totalChunks: number;
    running: boolean;
    estimatedRemainingMs?: number;
  };
  datasetEpoch?: number;
  queue: string[];
  checkpoints: CheckpointSummary[];
  slots: RoundSlot[];
  localWorkers: { requested: number; capacity: number; effective: number; active: number };
  incomplete: boolean;
  shuffled: boolean;
  validationUnavailable: boolean;
  module: ModuleFile;
  hasModuleFile: boolean;
  name: string;
  modelId: string;
  modelName: string;
  round: number;
  createdAt: number;
  completedAt: number | null;
  waitingFor: string;
  error?: string | null;
  seed?: string;
  roundsDone?: number;
  roundsEstimate?: number | null;
  canValidate?: boolean;
  hasValidationFile?: boolean;
  held?: Array<{ item: number; position: number; errors: number; error: string }>;
}

export interface ModuleFile {
  fileName: string;
  bytes: number;
  sha256: string;
}

export interface ModelInfo {
  id: string;
  version: string;
  name: string;
  abiVersion: number;
  weightFormat: string;
  maxWorkers?: number;
  metrics: Array<{ id: string; label: string; direction: "minimize" | "maximize" }>;
  auxiliaryWeights?: Array<{
    id: string;
    role?: string;
    bytes: number;
    sha256?: string;
    source?: { kind: "initial" | "checkpoint"; roundsAgo?: number };
  }>;
  workSource?: { kind: string; inputs: "none" | "dataset"; unit: { id: string; label: string } };
  [key: string]: unknown;
}

export interface ParticipantState {
  connected: boolean;
  approved: boolean;
  paused?: boolean;
  state:
    | "invited"
    | "approved"
    | "declined"
    | "unknown"
    | "disconnected"
    | "modelLoaded"
    | "assigned"
    | "training"
    | "updateReady"
    | "resultReceived"
    | "stopped"
    | "modelLoadFailed";
  label: string;
  role: "coordinator" | "participant";
  trains: boolean;
  error?: string;
}

export interface RoundSlot {
  peerId: string;
  chunkId: string;
  status: "loading" | "training" | "received" | "stopped";
  startedAt?: number;
  error?: string;
}

export interface CheckpointSummary {
  artifact: { round: number; sha256: string; bytes: number; fileName: string };
  metrics: TrainingMetrics;
  validationMetrics?: TrainingMetrics;
  validationError?: string;
  datasetEpoch?: number;
  datasetProgress?: number;
  remaining: string[];
  settings: TrainingSettings;
  aggregation?: { method: "fedavgm" | "fedadam"; step: number; bytes: number };
  createdAt: number;
  validation: "none" | "due" | "running" | "done" | "failed";
  remainingItems: number;
  nextUnit?: number;
}

export interface TrainingMetrics {
  values: Record<string, number>;
  examplesProcessed: number;
}

export interface PeerProgress {
  processedExamples: number;
  totalExamples?: number;
  metrics?: Record<string, number>;
  recordsPerSecond?: number;
  updatedAt: number;
}

export interface TransferProgress {
  jobId: string;
  peerId: string;
  artifactId: string;
  direction: "send" | "receive";
  bytes: number;
  totalBytes: number;
  bytesPerSecond: number;
  remainingSeconds?: number;
}

export type Unknown = "unknown";

export interface PeerExecutionDiagnostics {
  schemaVersion: 1;
  sequence: number;
  measuredAt: number;
  receivedAt: number;
  ageMs: number;
  stale: boolean;
  connected: boolean;
  environment: {
    browser: string | Unknown;
    browserVersion: string | Unknown;
    os: string | Unknown;
    logicalCores: number | Unknown;
  };
  execution: {
    requested: BackendPreference;
    actual: "cpu" | "gpu" | "hybrid" | Unknown;
    backend: string | Unknown;
    fallbackReason: string | null;
    activeWorkers: number;
    workerLimit: number;
  };
  gpu: {
    webgpu: "available" | "unavailable";
    adapter: { vendor: string; architecture: string; device: string; description: string } | Unknown;
    memoryBudgetMiB: number;
    initializationError: string | null | Unknown;
  };
  model: { id: string; version: string; wasmSha256: string; wgsl: { present: boolean; sha256: string[] } } | Unknown;
  assignment: {
    jobId: string;
    round: number;
    assignmentId: string;
    attemptId: string;
    chunkId: string | Unknown;
    bytes: number;
    exampleCount: number;
    batchSize: number;
    localEpochs: number;
    learningRate: number | Unknown;
  } | null;
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
    totalExamples: number | Unknown;
    optimizerSteps: number | Unknown;
    currentExamplesPerSecond: number | null;
    averageExamplesPerSecond: number | null;
    lastProgressAt: number | null;
  };
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

export interface JobInvitationState {
  state: "invited";
  /** `null` until its facts are here. */
  invitation: Invitation | null;
}

export interface Invitation {
  jobId: string;
  jobName: string;
  /** The coordinator's peer ID; empty while no device of theirs has the job open. */
  owner: string;
  /** The coordinator's name. */
  coordinator: string;
  modelInfo: ModelInfo;
  module: ModuleFile;
  settings: TrainingSettings;
  auxiliary: Array<{ id: string; role?: string; fileName: string; bytes: number; sha256: string }>;
  data: { chunks: number; bytes: number; examples: number; largestChunkBytes: number };
  weightBytes: number;
  requirements: { requiredFeatures: string[]; minimumDeviceLimits: Record<string, number>; estimatedWorkingBytes: number | null };
  state: string;
}

export interface InvitationLink {
  id: string;
  uses: number;
  maxUses: number;
  expiresAt: number;
  state: "open" | "used" | "expired" | "revoked";
}

export interface NewInvitationLink extends InvitationLink {
  url: string;
}

export interface SavedJob {
  id: string;
  name: string;
  status: TrainingJob["status"];
  modelId: string;
  modelName: string;
  round: number;
  createdAt: number;
  completedAt: number | null;
}

export interface StorageInventory {
  /** What the server keeps for this person. `bytes` counts a file once that several jobs share. */
  server: {
    bytes: number;
    uploads: number;
    uploadBytes: number;
    jobs: Array<{ jobId: string; jobName: string; kind: string; files: number; bytes: number }>;
  };
  /** What this browser keeps: files of jobs, so that they are not fetched again. */
  browser: { files: number; bytes: number; quotaBytes: number | null; usedBytes: number | null };
}

export interface Participation {
  stage: Stage;
  assignment: PeerExecutionDiagnostics["assignment"];
  processedExamples: number;
  totalExamples: number | null;
  examplesPerSecond: number | null;
  metrics: Record<string, number> | null;
  secondsLeft?: number;
  waitingFor: string | null;
  connected: boolean;
  replaced: boolean;
  paused: boolean;
  error: string | null;
  job: {
    id: string;
    name: string;
    status: string;
    round: number;
    state: string;
    unit?: { id: string; label: string } | null;
    passesDone: number;
    plannedPasses: number;
  } | null;
}

export interface FileProgress {
  fileName: string;
  phase: "hashing" | "uploading" | "held" | "done";
  bytes: number;
  totalBytes: number;
  error?: string;
}

export interface DraftState {
  state: "queued" | "preparing" | "done" | "failed";
  step: string | null;
  done: number;
  total: number;
  error: string | null;
  jobId: string | null;
}

export interface TrainingDebugEvent {
  /** ISO 8601 */
  at: string;
  event: string;
  details?: Record<string, unknown>;
}

export interface TrainingDebugLogFile {
  schemaVersion: 2;
  exportedAt: string;
  baseline: {
    phases: Record<string, { count: number; minMs: number; avgMs: number; p50Ms: number; maxMs: number }>;
    idle: { samples: number; totalMs: number; avgMs: number };
  };
  events: TrainingDebugEvent[];
}
