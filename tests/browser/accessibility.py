"""axe-core, asked in the light and in the dark, at the width that the page has. What the scheme cannot change is asked
once: in the dark only about colours."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.stack.stack import ROOT

AXE = (ROOT / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
OF_COLOURS = ["color-contrast", "link-in-text-block"]
RUN = """async (rules) => {
  // A colour on its way from one scheme to the other is nobody's choice.
  await Promise.all(document.getAnimations().map((animation) => animation.finished));
  const only = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const { violations } = await axe.run(document, { resultTypes: ["violations"], preload: false, ...only });
  const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const places = (nodes) => nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ");
  return grave.map(({ id, help, nodes }) => `${id}: ${help}: ${places(nodes)}`);
}"""


def check_accessible(page: Page) -> None:
    """Nothing serious is found in either scheme."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = []
    for scheme, rules in (("light", None), ("dark", OF_COLOURS)):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{page.url}, {scheme}: {line}" for line in page.evaluate(RUN, rules)]
    page.emulate_media(color_scheme="light", reduced_motion="null")
    assert not found, "\n".join(found)
