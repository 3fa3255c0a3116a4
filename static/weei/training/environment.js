/** Browser and system of this device (C72); what cannot be told is "unknown". */
import Bowser from "../../vendor/bowser-2.15.1.js";
import { logicalCores } from "./workers.js";

/** @type {Record<string, string>} names that the user agent's reader gives */
const BROWSERS = {
  Chrome: "Chrome",
  Chromium: "Chromium",
  DuckDuckGo: "DuckDuckGo",
  Firefox: "Firefox",
  "Microsoft Edge": "Edge",
  Opera: "Opera",
  Safari: "Safari",
  "Samsung Internet for Android": "Samsung Internet",
  Vivaldi: "Vivaldi",
  "Yandex Browser": "Yandex",
};
/** @type {Record<string, string>} names in the browser's client hints; "Chromium" stands beside all of them */
const BRANDS = {
  Brave: "Brave",
  DuckDuckGo: "DuckDuckGo",
  "Microsoft Edge": "Edge",
  Opera: "Opera",
  "Opera GX": "Opera",
  "Samsung Internet": "Samsung Internet",
  Vivaldi: "Vivaldi",
  YaBrowser: "Yandex",
  "Google Chrome": "Chrome",
  Chromium: "Chromium",
};
/** @type {Record<string, string>} */
const SYSTEMS = {
  Android: "Android",
  "Chrome OS": "ChromeOS",
  "Chromium OS": "ChromeOS",
  Linux: "Linux",
  Windows: "Windows",
  iOS: "iOS",
  macOS: "macOS",
};

/** @typedef {{brands?: {brand: string, version: string}[], platform?: string}} ClientHints the part of `navigator.userAgentData` that needs no question */
/** @typedef {Pick<import("../types.js").Environment, "browser" | "browserVersion" | "os">} Agent */

/**
 * Safari's version counts its minor number; the others are named by their major one.
 * @param {string | undefined} version @param {string} browser
 */
function shortVersion(version, browser) {
  const parts = version?.match(/^\d+(\.\d+)?/)?.[0];
  if (!parts) return "unknown";
  return browser === "Safari" ? parts.replace(/\.0$/, "") : /** @type {string} */ (parts.split(".")[0]);
}

/**
 * The hints come first: Brave's and Chromium's user agents are those of Chrome.
 * @param {string} userAgent @param {ClientHints | null} [hints] @returns {Agent}
 */
export function describeAgent(userAgent, hints) {
  const { browser, os } = userAgent ? Bowser.parse(userAgent) : { browser: {}, os: {} };
  const hinted = Object.keys(BRANDS).find((name) => hints?.brands?.some(({ brand }) => brand === name));
  const name = hinted ? BRANDS[hinted] : BROWSERS[browser.name ?? ""];
  const version = hinted ? hints?.brands?.find(({ brand }) => brand === hinted)?.version : browser.version;
  return {
    browser: name ?? "unknown",
    browserVersion: name ? shortVersion(version, name) : "unknown",
    os: SYSTEMS[hints?.platform ?? ""] ?? SYSTEMS[os.name ?? ""] ?? "unknown",
  };
}

/**
 * @param {{userAgent: string, userAgentData?: ClientHints, hardwareConcurrency?: number, gpu?: unknown}} navigator
 * @returns {import("../types.js").Environment}
 */
export function describeEnvironment(navigator) {
  return {
    ...describeAgent(navigator.userAgent, navigator.userAgentData),
    logicalCores: logicalCores(navigator),
    webgpu: navigator.gpu ? "available" : "unavailable",
  };
}
