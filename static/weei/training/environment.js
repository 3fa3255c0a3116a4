/** Browser and system of this device by its user agent (C72); what cannot be told is "unknown". */
import Bowser from "../../vendor/bowser-2.15.1.js";
import { logicalCores } from "./workers.js";

/** @type {Record<string, string>} */
const BROWSERS = { Chrome: "Chrome", Chromium: "Chrome", Firefox: "Firefox", Safari: "Safari", "Microsoft Edge": "Edge", Opera: "Opera" };
/** @type {Record<string, string>} */
const SYSTEMS = { Windows: "Windows", macOS: "macOS", Linux: "Linux", Android: "Android", iOS: "iOS", "Chrome OS": "ChromeOS" };

/**
 * Safari's version counts its minor number; the others are named by their major one.
 * @param {string | undefined} version @param {string} browser
 */
function shortVersion(version, browser) {
  const parts = version?.match(/^\d+(\.\d+)?/)?.[0];
  if (!parts) return "unknown";
  return browser === "Safari" ? parts.replace(/\.0$/, "") : /** @type {string} */ (parts.split(".")[0]);
}

/** @param {string} userAgent */
export function describeAgent(userAgent) {
  const { browser, os } = userAgent ? Bowser.parse(userAgent) : { browser: {}, os: {} };
  const name = BROWSERS[browser.name ?? ""] ?? "unknown";
  return { browser: name, browserVersion: name === "unknown" ? "unknown" : shortVersion(browser.version, name), os: SYSTEMS[os.name ?? ""] ?? "unknown" };
}

/** @param {{userAgent: string, hardwareConcurrency?: number, gpu?: unknown}} navigator @returns {import("../types.js").Environment} */
export function describeEnvironment(navigator) {
  return {
    ...describeAgent(navigator.userAgent),
    logicalCores: logicalCores(navigator),
    webgpu: navigator.gpu ? "available" : "unavailable",
  };
}
