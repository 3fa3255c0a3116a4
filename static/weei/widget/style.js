/** How the window looks. `!important` on the host alone: there the page's own rules would win. No rem: that is the page's own, too. */
const CSS = `
:host {
  all: initial !important;
  position: fixed !important;
  inset-block-end: 16px !important;
  inset-inline-end: 16px !important;
  z-index: 2147483000 !important;
  inline-size: min(400px, calc(100vw - 32px)) !important;
  display: block !important;
  color-scheme: light dark !important;
  --surface: #fff; --text: #17211e; --muted: #56635e; --line: #8b9892; --accent: #0f766e; --on-accent: #fff; --soft: #eef1ef; --bad: #b42318;
}
:host([hidden]) { display: none !important; }
@media (prefers-color-scheme: dark) {
  :host { --surface: #18201d; --text: #e8eeeb; --muted: #a3b1ab; --line: #6d7d76; --accent: #4fd1bf; --on-accent: #06231f; --soft: #111816; --bad: #ff8f85; }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
[role=dialog] {
  display: flex; flex-direction: column; max-block-size: min(640px, calc(100dvh - 32px)); overflow: hidden;
  background: var(--surface); color: var(--text); border: 1px solid var(--line); border-radius: 12px;
  box-shadow: 0 8px 32px rgb(0 0 0 / 25%); font: 15px/1.45 system-ui, sans-serif; text-align: start;
}
header { display: flex; align-items: center; justify-content: space-between; gap: .5em; padding: .6em .6em .6em 1em; border-block-end: 1px solid var(--line); }
header button { flex: none; }
h2 { font-size: 1em; margin: 0; }
h3 { font-size: .95em; margin: 0 0 .4em; }
.body { overflow: auto; padding: 0 1em; overscroll-behavior: contain; }
section { padding-block: .8em; border-block-end: 1px solid var(--line); }
section:last-child { border: 0; }
p { margin: 0 0 .5em; overflow-wrap: anywhere; }
ul { list-style: none; margin: 0; padding: 0; }
li { padding-block: .35em; overflow-wrap: anywhere; }
dl { margin: 0 0 .5em; }
.fact { display: flex; justify-content: space-between; gap: 1em; }
dt { color: var(--muted); }
dd { margin: 0; text-align: end; overflow-wrap: anywhere; }
.row { display: flex; flex-wrap: wrap; gap: .4em; align-items: center; }
.row > .grow { flex: 1 1 8em; }
small, .muted { color: var(--muted); font-size: .87em; }
.problem { color: var(--bad); }
button, input, select { font: inherit; color: inherit; min-block-size: 2.25em; border-radius: 8px; border: 1px solid var(--line); background: var(--soft); padding: .25em .7em; max-inline-size: 100%; }
button { cursor: pointer; }
button.main { background: var(--accent); color: var(--on-accent); border-color: var(--accent); }
button:disabled { opacity: .55; cursor: default; }
a { color: var(--accent); }
label { display: block; margin-block-end: .6em; }
label > span { display: block; }
label.check { display: flex; gap: .5em; align-items: center; }
label.check input { min-block-size: 0; }
input:not([type=checkbox]), select, progress { inline-size: 100%; }
progress { accent-color: var(--accent); block-size: .6em; }
summary { cursor: pointer; padding-block: .2em; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media (max-width: 480px) {
  :host { inset-inline: 0 !important; inset-block-end: 0 !important; inline-size: 100vw !important; }
  [role=dialog] { border-radius: 12px 12px 0 0; max-block-size: 85dvh; }
}
`;

/** A sheet of one's own needs no permission of the page's content security policy. */
export function styleSheet() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  return sheet;
}
