// Wire states in words, and the tone of their badge; the same as STATE_WORDS of jobs/templatetags/weei.py.

/** @type {Record<string, [word: string, tone: string]>} */
export const STATE_WORDS = {
  invited: ["Invited", ""],
  approved: ["Loading the model", "accent"],
  declined: ["Declined", ""],
  unknown: ["Not heard from yet", ""],
  disconnected: ["Disconnected", "warn"],
  modelLoaded: ["Ready", "good"],
  assigned: ["Assigned", "accent"],
  updateReady: ["Uploading", "accent"],
  resultReceived: ["Update received", "good"],
  stopped: ["Stopped", "warn"],
  modelLoadFailed: ["Could not load the model", "bad"],
  waiting: ["Waiting", ""],
  receiving: ["Receiving", "accent"],
  preparing: ["Preparing", "accent"],
  compiling: ["Compiling", "accent"],
  training: ["Training", "accent"],
  uploading: ["Uploading", "accent"],
  awaitingAggregation: ["Waiting for the merge", "accent"],
  error: ["Error", "bad"],
};

/** A state that is not known here is shown as it is. @param {string} state @returns {[word: string, tone: string]} */
export const stateWord = (state) => (Object.hasOwn(STATE_WORDS, state) ? /** @type {[string, string]} */ (STATE_WORDS[state]) : [state, ""]);

/** What computes, in words. @type {Record<string, string>} */
export const MODES = { auto: "automatic", cpu: "CPU", gpu: "GPU", hybrid: "GPU with CPU" };
