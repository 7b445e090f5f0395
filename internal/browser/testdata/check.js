// What is wrong with the page as it is now: controls without a name, texts with too little contrast, names of elements
// that are there twice, labels of what is not there. The rules are those of WCAG 2.2 at level AA that can be computed.
(() => {
  const wrong = [];
  const describe = (e) => `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ''}.${String(e.className.baseVal ?? e.className).replace(/ +/g, '.')} "${(e.textContent ?? '').trim().slice(0, 30)}"`;
  const visible = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length > 0;

  const nameOf = (e) => {
    const by = e.getAttribute('aria-labelledby');
    if (by) return by.split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join(' ');
    return e.getAttribute('aria-label') || [...(e.labels ?? [])].map((label) => label.textContent).join(' ')
      || (e.matches('input, select, textarea') ? '' : e.textContent) || e.getAttribute('title') || '';
  };
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea, [role=button], [role=tab], [tabindex], summary, dialog, nav, aside, main')) {
    if (visible(e) && !nameOf(e).trim()) wrong.push(`${describe(e)} has no name`);
  }
  for (const e of document.querySelectorAll('img:not([alt])')) wrong.push(`${describe(e)} has no alt`);

  const ids = new Set();
  for (const e of document.querySelectorAll('[id]')) {
    if (ids.has(e.id)) wrong.push(`the id ${e.id} is there twice`);
    ids.add(e.id);
  }
  for (const attribute of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for']) {
    for (const e of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of e.getAttribute(attribute).split(' ')) if (!ids.has(id)) wrong.push(`${describe(e)}: ${attribute} names ${id}, which is not there`);
    }
  }
  if (!document.documentElement.lang) wrong.push('the page has no language');
  if (document.querySelectorAll('main').length !== 1) wrong.push('there is not one main part');

  const parse = (color) => {
    const found = /rgba?\(([\d.]+),? ([\d.]+),? ([\d.]+)(?:[,/ ]+([\d.]+%?))?\)/.exec(color);
    if (!found) return null;
    const alpha = found[4] === undefined ? 1 : parseFloat(found[4]) / (found[4].endsWith('%') ? 100 : 1);
    return [Number(found[1]), Number(found[2]), Number(found[3]), alpha];
  };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color && color[3] > 0) layers.push(color);
      if (color && color[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const x = c[i] / 255;
    return sum + weight * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  }, 0);
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  for (const animation of document.getAnimations()) animation.finish?.call(animation.effect?.getTiming().iterations === Infinity ? { finish() {} } : animation);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let checked = 0;
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !visible(e) || e.closest(':disabled, .hidden, .skip, option, title, noscript')) continue;
    const style = getComputedStyle(e);
    const below = ground(e);
    const ratio = contrast(over(parse(style.color), below), below);
    const large = parseFloat(style.fontSize) >= 24;
    checked++;
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${describe(e)} has a contrast of ${ratio.toFixed(2)}`);
  }
  if (checked < 10) wrong.push(`only ${checked} texts were found`);
  for (const e of document.querySelectorAll('input, select, textarea')) {
    if (!visible(e) || e.disabled) continue;
    const below = ground(e);
    const ratio = contrast(over(parse(getComputedStyle(e).color), below), below);
    if (ratio < 4.5) wrong.push(`${describe(e)} has a contrast of ${ratio.toFixed(2)}`);
  }
  for (const e of document.querySelectorAll('button, select, summary, [role=button], [role=tab]')) {
    const box = e.getBoundingClientRect();
    if (visible(e) && (box.width < 24 || box.height < 24)) wrong.push(`${describe(e)} is ${Math.round(box.width)} by ${Math.round(box.height)}, want 24 by 24 at least`);
  }
  return wrong;
})()
