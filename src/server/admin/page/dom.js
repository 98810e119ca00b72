// Elements. Text of the server is only ever text: nothing on this page makes markup of data.

/** A table of names, for names that come from outside: `constructor` is none of its own. */
const named = names => Object.assign(Object.create(null), names);

const $ = id => document.getElementById(id);

/** An element. A field `onclick` is a listener; children that are missing are left out. */
function el(tag, fields, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(fields || {})) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false)
      made.setAttribute(name, visible(String(value)));
  }
  const there = children.flat().filter(child => child !== undefined && child !== null);
  made.append(...there.map(child => (child instanceof Node ? child : visible(String(child)))));
  return made;
}

// What nobody sees, or turns the text around it, by number: as src/server/protocol/visible.rs.
const HIDDEN = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const visible = text => text.replace(HIDDEN, one => `\\u{${one.codePointAt().toString(16)}}`);

/** Sets a text; one that is the same is left alone, so that nothing is read out again. */
function put(node, text) {
  const shown = visible(String(text));
  if (node.textContent !== shown) node.textContent = shown;
}

/** Keeps the children of a parent as the items are: made once, updated, in order, removed. */
function sync(parent, items, keyOf, make, update) {
  const known = parent.known || (parent.known = new Map());
  const seen = new Set();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let at = parent.firstChild;
  for (const item of items) {
    const key = String(keyOf(item));
    if (seen.has(key)) continue;
    seen.add(key);
    let node = known.get(key);
    if (!node) known.set(key, (node = make(item)));
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    if (update) update(node, item);
  }
  for (const [key, node] of known) {
    if (seen.has(key)) continue;
    node.remove();
    known.delete(key);
  }
  // What is moved loses the focus; what is gone leaves it to what is around, which is hidden if
  // nothing is left in it.
  if (!focused || document.activeElement === focused) return;
  const around = items.length ? parent.closest('[tabindex]') : $('view');
  (focused.isConnected ? focused : around || $('view')).focus({ preventScroll: true });
}

const link = (text, href) => el('a', { href }, text);
const button = (text, run, fields) =>
  el('button', { type: 'button', onclick: event => run(event.currentTarget), ...fields }, text);
const section = (title, fields, ...children) =>
  el('section', fields, el('h2', {}, title), children);

/** One of some values, [value, label] each: buttons of which one is down. */
const radios = (name, legend, options, chosen, take) =>
  el(
    'fieldset',
    { class: 'choice' },
    el('legend', { class: 'hide' }, legend),
    options.map(([value, label]) => {
      const input = el('input', { type: 'radio', name, value, onchange: () => take(value) });
      input.checked = value === chosen;
      return el('label', {}, input, el('span', {}, label));
    }),
  );

/** A table with a name. Columns are [heading, class]; the first one is a heading of its row. */
function table(label, columns, fields) {
  const body = el('tbody', fields);
  const heads = columns.map(([name, kind]) => el('th', { scope: 'col', class: kind }, name));
  const node = el(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
    el('table', {}, el('thead', {}, el('tr', {}, heads)), body),
  );
  return { node, body, columns };
}

/** Rows of cells: texts, or elements that are made anew only if `stays` says so. */
function fill({ body, columns }, items, keyOf, cells) {
  sync(
    body,
    items,
    keyOf,
    item => {
      const made = cells(item).map((cell, nth) =>
        el(nth ? 'td' : 'th', { class: columns[nth][1], scope: nth ? undefined : 'row' }, cell),
      );
      return el('tr', {}, made);
    },
    (row, item) =>
      cells(item).forEach((cell, nth) => {
        if (!(cell instanceof Node)) put(row.children[nth], cell ?? '');
      }),
  );
}
