// All businesses in a table that is sorted and filtered, up to some thousands of them.

const SHOWN = 500; // Rows at once; the filter finds the others.
const SETTLED_MS = 5000; // Between two sortings: a row stays where it is for a moment.

const modeWords = mode => (mode === 'enforce' ? '' : mode || '');
const BIZ_COLUMNS = [
  { name: 'Business', of: biz => biz.name },
  { name: 'Refused/s', kind: 'num', of: biz => lately(biz).refused, words: rate },
  {
    name: 'Share',
    kind: 'num',
    of: biz => (lately(biz).all ? lately(biz).refused / lately(biz).all : -1),
    words: part => (part < 0 ? '–' : share(part, 1)),
  },
  { name: 'Passed/s', kind: 'num', of: biz => lately(biz).passed, words: rate },
  { name: 'Errors/s', kind: 'num', of: biz => lately(biz).errors, words: rate },
  {
    name: 'p99',
    kind: 'num',
    of: biz => p99Of(biz) ?? -1,
    words: us => (us < 0 ? '–' : micros(us)),
  },
  { name: 'Refused in all', kind: 'num', of: biz => bizTotal(biz, REFUSED), words: count },
  // What is the rule is not written on each line.
  { name: 'Mode', of: biz => (isNamed(biz) ? modeOf(biz) : 'not in map.xml'), words: modeWords },
  {
    name: 'Limits',
    kind: 'limit',
    of: biz =>
      hasRegisters(biz) ? registerWords(biz) : biz.limits.map(limit => limit.words).join('; '),
  },
];
const sorting = { column: 1, down: true };

const bizTotal = (biz, names) => sum(biz.queries, names) + sum(biz.updates, names);
/** Now, of the history; or what the server says of it. */
function p99Of(biz) {
  for (const row of past.seconds.slice(-10).reverse()) {
    const one = bizIn(row, biz.name);
    if (one && one['p99-us'] !== undefined) return one['p99-us'];
  }
  return biz.latency && biz.latency['p99-us'];
}

VIEWS.businesses = () => {
  const heads = BIZ_COLUMNS.map((column, nth) =>
    el(
      'th',
      { scope: 'col', class: column.kind },
      button(column.name, () => sortBy(nth), { class: 'sort' }),
    ),
  );
  const body = el('tbody', { id: 'bizs' });
  const filter = el('input', {
    type: 'search',
    id: 'filter',
    size: 16,
    autocomplete: 'off',
    oninput: () => show(true),
  });
  const gone = el('input', { type: 'checkbox', id: 'gone', onchange: () => show(true) });
  const goneLabel = el('label', { hidden: '' }, gone, el('span', { id: 'gone-words' }));
  const more = el('p', { class: 'soft', id: 'more-bizs' });
  const node = el(
    'div',
    {},
    heading('Businesses'),
    el(
      'div',
      { class: 'row' },
      el('label', {}, 'Filter ', filter),
      el('span', { class: 'soft', id: 'bizs-count', role: 'status' }),
      goneLabel,
      button('Add a business', () => addBiz(), { id: 'add-biz', class: 'push' }),
    ),
    el(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Businesses' },
      el(
        'table',
        { class: 'bizs' },
        el(
          'caption',
          { class: 'hide' },
          'Rates are of the last five seconds. The buttons in the headings sort.',
        ),
        el('thead', {}, el('tr', {}, heads)),
        body,
      ),
    ),
    more,
  );
  const ordered = settled(body, SETTLED_MS, keyOfBiz);
  const sortBy = nth => {
    sorting.down = sorting.column === nth ? !sorting.down : nth > 0 && nth < 7;
    sorting.column = nth;
    show(true);
  };
  const show = now => {
    if (!stats) return;
    heads.forEach((head, nth) =>
      head.setAttribute(
        'aria-sort',
        nth !== sorting.column ? 'none' : sorting.down ? 'descending' : 'ascending',
      ),
    );
    const wanted = filter.value.trim().toLowerCase();
    const removed = stats.bizs.filter(biz => biz.removed).length;
    goneLabel.hidden = !removed;
    put($('gone-words'), ` and ${removed} that ${removed === 1 ? 'is' : 'are'} gone`);
    const found = ordered(stats.bizs, sorted, now === true).filter(
      biz =>
        (gone.checked || !biz.removed) &&
        (!wanted || biz.name.toLowerCase().includes(wanted) || String(biz.id) === wanted),
    );
    put($('bizs-count'), plural(found.length, 'business', 'businesses'));
    sync(body, found.slice(0, SHOWN), keyOfBiz, bizRow, showBizRow);
    more.hidden = found.length <= SHOWN;
    put(more, `${count(found.length - SHOWN)} more: the filter finds them by name.`);
  };
  return { name: 'businesses', title: 'Businesses', node, show };
};

function sorted(bizs) {
  const { of } = BIZ_COLUMNS[sorting.column];
  const sign = sorting.down ? -1 : 1;
  return bizs
    .map(biz => [of(biz), biz])
    .sort(
      ([one, a], [other, b]) =>
        sign * (one < other ? -1 : one > other ? 1 : 0) || (a.name < b.name ? -1 : 1),
    )
    .map(([, biz]) => biz);
}

function bizRow(biz) {
  const cells = BIZ_COLUMNS.slice(1).map(({ kind }) => el('td', { class: kind }));
  return el('tr', { 'data-biz': biz.name }, el('th', { scope: 'row' }, bizLink(biz.name)), cells);
}
function showBizRow(row, biz) {
  BIZ_COLUMNS.slice(1).forEach(({ of, words }, nth) => {
    const value = of(biz);
    put(row.children[nth + 1], words ? words(value) : value);
  });
  const { refused, all } = lately(biz);
  const mode = modeOf(biz);
  row.className =
    mode && mode !== 'enforce' ? 'softer' : refused > 0 && refused > all / 2 ? 'hot' : '';
}
