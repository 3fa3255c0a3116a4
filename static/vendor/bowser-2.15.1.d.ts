interface Parsed {
  browser: { name?: string; version?: string };
  os: { name?: string; version?: string };
}
declare const Bowser: { parse(userAgent: string): Parsed };
export default Bowser;
