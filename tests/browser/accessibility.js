// Evaluated in a page: names of controls and pictures, ids, the order of Tab, and whether text can be read. WCAG 2.2 asks for
// a contrast of 4.5, or 3 for large text; what is switched off, and what lies on a picture, is not measured.
() => {
  const problems = [];
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const name = (element) => [element.id && `#${element.id}`, element.className?.baseVal ?? element.className].join(" ");

  for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    const named = [...(control.labels ?? [])].some((label) => label.innerText.trim()) || control.ariaLabel;
    if (shown(control) && !named) problems.push(`no label: ${name(control)}`);
  }
  for (const button of document.querySelectorAll("button, a[href], summary")) {
    if (shown(button) && !(button.ariaLabel || button.innerText || button.title).trim()) problems.push(`no name: ${name(button)}`);
  }
  for (const picture of document.querySelectorAll("img, [role=img], canvas, progress")) {
    const named = picture.hasAttribute("alt") || picture.ariaLabel || picture.closest("[aria-label], [aria-hidden]");
    if (shown(picture) && !named) problems.push(`no text for: ${name(picture)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) < at))) problems.push(`two elements have the id ${id}`);
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for], output[for]")) {
    const named = ["aria-labelledby", "aria-describedby", "for"].flatMap((kind) => (element.getAttribute(kind) ?? "").split(" "));
    for (const id of named.filter(Boolean)) if (!ids.includes(id)) problems.push(`${name(element)} names #${id}, which is not there`);
  }
  if (document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")) problems.push("Tab has an order of its own");
  if ([...document.querySelectorAll("h1")].filter(shown).length !== 1) problems.push("there is not one h1");

  const color = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = color(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const off = element.closest(":disabled, [aria-disabled=true], .visually-hidden, .skip, option, script, noscript, svg");
    if (!walker.currentNode.data.trim() || off || !shown(element)) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(color(style.color)), light(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) problems.push(`contrast ${ratio.toFixed(2)}: “${walker.currentNode.data.trim().slice(0, 40)}”`);
  }
  return problems;
}
