// The views, one for each address behind `#`. A view is made when it is opened and dropped when it
// is left: {name, title, node, show(), close()}. `show` is called with each look.

const VIEWS = named({}); // By the first part of the address: arguments to a view.
const NAV = [
  ['', 'Overview'],
  ['businesses', 'Businesses'],
  ['changes', 'Changes'],
  ['room', 'Room'],
  ['processes', 'Processes'],
  ['clients', 'Clients'],
  ['cluster', 'Cluster'],
  ['peers', 'Peers'],
];
const NAV_OF_SOME = ['clients', 'cluster', 'peers']; // Shown where the server has them.
let view = { name: 'none', title: '', show() {} };

function buildNav() {
  $('nav').append(
    ...NAV.map(([name, label]) =>
      el(
        'li',
        { id: 'nav-' + (name || 'overview'), hidden: NAV_OF_SOME.includes(name) ? '' : undefined },
        link(label, '#/' + name),
      ),
    ),
  );
}

/** The parts of the address, decoded. */
function parts() {
  return location.hash
    .replace(/^#\/?/, '')
    .split('/')
    .map(part => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
}
const hrefOf = (...names) => '#/' + names.map(encodeURIComponent).join('/');

function openView() {
  const [name, ...rest] = parts();
  endCharts();
  if (view.close) view.close();
  view = (VIEWS[name] || VIEWS[''])(...rest);
  $('view').replaceChildren(view.node);
  const section = { biz: 'businesses', overview: '' }[view.name] ?? view.name;
  for (const item of $('nav').children) {
    const isThis = item.firstChild.getAttribute('href') === '#/' + section;
    if (isThis) item.firstChild.setAttribute('aria-current', 'page');
    else item.firstChild.removeAttribute('aria-current');
  }
  if (stats) show();
  // What a view needs is asked at once.
  hurry('minutes', 'changes', 'refused', 'biz-refused', 'biz-used');
  look();
}
window.addEventListener('hashchange', () => {
  openView();
  scrollTo(0, 0);
  const head = $('view').querySelector('h1');
  if (head) head.focus();
});
const heading = text => el('h1', { tabindex: -1 }, text);

$('skip').onclick = event => {
  event.preventDefault();
  $('view').focus();
};
$('find').onsubmit = event => {
  event.preventDefault();
  const key = $('find-key').value;
  if (!key) return;
  const href = hrefOf('key', key);
  if (location.hash === href) openView();
  else location.hash = href;
};

// What views share.

// Of some nothing but counters is left: map.xml does not name them, or they are many together.
const isNamed = biz => biz.id !== undefined && !biz.removed;
const keyOfBiz = biz => (isNamed(biz) ? biz.id : 'was ' + biz.name);
const modeOf = biz => {
  const known = map && map.bizs.get(biz.id);
  return known ? known.mode || 'enforce' : undefined;
};
const MODES = named({ shadow: 'shadow: refuses nothing', off: 'off: judges nothing' });
const bizLink = name => link(name, hrefOf('biz', name));
// Of a long refused key only its digest and its beginning are known: no question can name it.
const isDigest = key => /^digest:[0-9a-f]{32}$/.test(key);
const keyName = (key, begins) =>
  isDigest(key)
    ? el('span', { class: 'key', title: key }, begins ? begins + '…' : key)
    : el('a', { href: hrefOf('key', key), class: 'key' }, key);

/** What a business did over a period of its rates: passed, refused and errors a second. */
function over(biz, ms) {
  const rates = biz.rates.find(one => one.over === ms);
  if (!rates) return null;
  return withAll(sum(rates, PASSED), sum(rates, REFUSED), rates.error);
}
const withAll = (passed, refused, errors) => ({
  passed,
  refused,
  errors,
  all: passed + refused + errors,
});
/** Over the last seconds that this page has seen; at its first look, over the last minute. */
const lately = biz =>
  sinceLooks(biz) ||
  over(biz, 60000) ||
  sinceStart(biz) ||
  over(biz, 1000) ||
  withAll(0, 0, 0);
function sinceLooks(biz) {
  const [then, now] = [past.looks[0], past.looks.at(-1)];
  const totals = now && now !== then && now.biz.get(biz.name);
  const before = totals && then.biz.get(biz.name);
  if (!before) return null;
  const of = name => (1000 * Math.max(0, totals[name] - before[name])) / (now.time - then.time);
  return withAll(of('allowed'), of('limited'), of('errors'));
}
function sinceStart(biz) {
  const seconds = (stats.server.now - stats.server.start) / 1000;
  if (seconds > 90) return null;
  const of = names => bizTotal(biz, names) / Math.max(1, seconds);
  return withAll(of(PASSED), of(REFUSED), of(['error']));
}

/** Rows in an order by figures: it is kept for a while, and while somebody is in the table. */
function settled(body, ms, keyOf) {
  let order = [];
  let sortedAt = 0;
  return (items, sort, now) => {
    const isUsed = body.contains(document.activeElement) || body.matches(':hover');
    if (now || !order.length || (!isUsed && Date.now() - sortedAt >= ms)) {
      order = sort(items).map(keyOf);
      sortedAt = Date.now();
    }
    const known = new Map(items.map(item => [keyOf(item), item]));
    const kept = order.filter(key => known.has(key));
    const added = [...known.keys()].filter(key => !kept.includes(key));
    return [...kept, ...added].map(key => known.get(key));
  };
}

function bar(parts) {
  const node = el(
    'div',
    { class: 'bar', role: 'img' },
    parts.map(([kind]) => el('span', { class: kind })),
  );
  return {
    node,
    show: (values, told) => {
      const whole = values.reduce((sum, part) => sum + part, 0);
      values.forEach((part, nth) => {
        node.children[nth].style.width = whole ? (100 * part) / whole + '%' : '0';
      });
      node.setAttribute('aria-label', told);
    },
  };
}

function tile(id, name, note) {
  return el(
    'div',
    { class: 'tile' },
    el('span', { class: 'soft' }, name),
    el('b', { id }, '–'),
    el('span', { class: 'soft', id: id + '-note' }, note),
  );
}
