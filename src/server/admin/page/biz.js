// The page of one business: its limits in words, which of them refuses, what it allowed and refused
// over time, and its keys. What can be done with it stands above them.

const HOT = 10; // Keys in each table.

VIEWS.biz = name => {
  const charts = bizCharts(name);
  const limits = table(
    'Limits',
    [['Limit'], ['Refused recently', 'num'], ['Since the start', 'num'], ['Share', 'num']],
    { id: 'limits' },
  );
  const rates = table(
    'Items a second',
    [['Items a second'], ['1 s', 'num'], ['1 min', 'num'], ['10 min', 'num'], ['in all', 'num']],
    { id: 'biz-rates' },
  );
  const state = { name, used: null, refused: null, window: '1m', refusedGone: false };
  const hot = table(
    'Hottest keys',
    [
      ['Key', 'key'],
      ['Used', 'num'],
      ['Last', 'num'],
      ['Do', 'act'],
    ],
    { id: 'hot-keys' },
  );
  const most = table(
    'Most refused keys',
    [
      ['Key', 'key'],
      ['Refused', 'num'],
      ['Last', 'num'],
      ['Do', 'act'],
    ],
    { id: 'biz-refused-keys' },
  );
  const actions = el('div', { class: 'row', id: 'biz-actions' });
  const own = el(
    'div',
    { id: 'biz-own' },
    section(
      'Keys',
      {},
      keyForm(state),
      el(
        'div',
        { class: 'two' },
        el(
          'div',
          {},
          el('div', { class: 'row' }, el('h3', {}, 'Most refused'), keyWindow(state)),
          el('p', { class: 'soft', id: 'no-biz-refused' }),
          most.node,
        ),
        el('div', {}, el('h3', {}, 'Hottest'), el('p', { class: 'soft', id: 'no-hot' }), hot.node),
      ),
    ),
  );
  const gone = el('p', { id: 'biz-gone', hidden: '' });
  const node = el(
    'article',
    { 'data-biz': name },
    el('p', {}, link('Businesses', '#/businesses')),
    el(
      'div',
      { class: 'row' },
      heading(name),
      el('span', { class: 'badge', id: 'badge', hidden: '' }),
      el('span', { class: 'soft', id: 'biz-told' }),
    ),
    gone,
    actions,
    section('Limits', { id: 'biz-limits' }, limits.node),
    section(
      'Over time',
      {},
      el('div', { class: 'row' }, rangeChoice()),
      el(
        'div',
        { class: 'charts' },
        charts.map(one => one.node),
      ),
      rates.node,
    ),
    own,
  );
  for (const one of bizActions(state)) actions.append(one);
  const show = () => {
    const biz = stats && bizNamed(name);
    gone.hidden = !stats || !!biz;
    put(gone, 'There is no such business, and no counters of one.');
    for (const part of [actions, own]) part.hidden = !biz || !isNamed(biz);
    if (!biz) return;
    showBizHead(biz);
    showLimits(limits, biz);
    const range = rowsInRange();
    charts.forEach(one => draw(one, range, marksOf(name)));
    showRates(rates, biz);
    showKeys(hot, most, state, biz);
  };
  const lookAtUsed = () => readUsed(state);
  const lookAtRefused = () => readRefused(state);
  return { name: 'biz', title: name, node, show, lookAtUsed, lookAtRefused };
};

const groupOf = known => (known && known.group) || (map && map.groups[0]) || '–';
/** A business without limits has registers. How many is known after a sweep. */
const hasRegisters = biz => isNamed(biz) && !!biz.limits && !biz.limits.length;
const registerWords = biz =>
  biz.registers === undefined ? 'registers' : plural(biz.registers, 'register', 'registers');
const bizNamed = name =>
  stats.bizs.find(biz => isNamed(biz) && biz.name === name) ||
  stats.bizs.find(biz => biz.name === name);

function showBizHead(biz) {
  const mode = modeOf(biz);
  const known = map && map.bizs.get(biz.id);
  $('badge').hidden = !MODES[mode];
  put($('badge'), MODES[mode] || '');
  put(
    $('biz-told'),
    !isNamed(biz)
      ? 'not in map.xml: its counters are left'
      : `id ${biz.id} · keys: ${known ? known.key : '–'} · group ${groupOf(known)}` +
          (known && known.share ? ` · share ${known.share}` : '') +
          (biz.holds === undefined ? '' : ` · ${plural(biz.holds, 'hold', 'holds')}`) +
          (hasRegisters(biz) ? ' · ' + registerWords(biz) : ''),
  );
  if (!isNamed(biz)) return;
  // Nothing is judged where there is no limit.
  for (const part of ['biz-limits', 'lift-bans', 'key-unban']) $(part).hidden = hasRegisters(biz);
  $('flip').hidden = !mode || hasRegisters(biz);
  put($('flip'), mode === 'enforce' ? 'To shadow' : 'Enforce');
}

function showLimits(into, biz) {
  const all = biz.refusals;
  put(into.node.querySelectorAll('th')[1], 'Refused ' + recentWords());
  const recent = recentRefusals(biz);
  const bans = bansOf(biz);
  const whole = (all || []).reduce((sum, one) => sum + one, bans);
  const rows = biz.limits.map(({ words }, nth) => [
    `${nth + 1}. ${words}`,
    all ? count(recent[nth]) : 'not available',
    all ? count(all[nth]) : '–',
    all ? share(all[nth] || 0, whole) : '–',
  ]);
  // A key that is banned is refused before any limit is asked.
  if (all && bans)
    rows.push(['A ban in force', count(recentBans(biz)), count(bans), share(bans, whole)]);
  fill(
    into,
    rows,
    ([words]) => words,
    row => row,
  );
}

const OUTCOMES = [
  ['Passed', PASSED],
  ['Refused', REFUSED],
  ['of these banned', ['banned']],
  ['Errors', ['error']],
  ['would be refused', ['shadowed']],
  ['degraded', ['degraded']],
  ['Decided by a list', ['listed']],
];
function showRates(into, biz) {
  const found = OUTCOMES.filter(([, names], nth) => nth < 2 || bizTotal(biz, names) > 0);
  fill(
    into,
    found,
    ([label]) => label,
    ([label, names]) => [
      label,
      ...[1000, 60000, 600000].map(ms => {
        const known = biz.rates.find(one => one.over === ms);
        return known ? rate(sum(known, names)) : '–';
      }),
      count(bizTotal(biz, names)),
    ],
  );
}

// What can be done.

function bizActions(state) {
  const here = () => bizNamed(state.name);
  return [
    button('Edit', () => editBiz(here()), { id: 'edit-biz' }),
    button('To shadow', pressed => flip(here(), pressed), { id: 'flip' }),
    button('Reset all keys', pressed => resetBiz(here(), pressed), { id: 'reset-biz' }),
    button('Lift bans', pressed => liftBans(here(), pressed), { id: 'lift-bans' }),
    button('Remove', pressed => removeBiz(here(), pressed), { id: 'remove-biz', class: 'danger' }),
  ];
}
async function flip(biz, pressed) {
  const mode = modeOf(biz) === 'enforce' ? 'shadow' : 'enforce';
  const told =
    mode === 'shadow'
      ? 'It judges and counts as before, and refuses nothing.'
      : 'It refuses what its limits do not admit.';
  const yes = mode === 'shadow' ? 'To shadow' : 'Enforce';
  if (!(await confirmed(`${biz.name}: ${mode}`, told, yes))) return;
  await act(pressed, `${biz.name}: ${mode}.`, () =>
    changeText(biz, '', text => withMode(text, mode)),
  );
}
async function resetBiz(biz, pressed) {
  const told = hasRegisters(biz)
    ? 'All its registers are removed.'
    : 'The counters and bans of all its keys start afresh.';
  if (!(await confirmed(`Reset ${biz.name}`, told, 'Reset all keys'))) return;
  await act(pressed, `${biz.name}: all counters are fresh.`, () =>
    change('POST', bizPath(biz) + '/reset'),
  );
}
async function liftBans(biz, pressed) {
  const told = 'Keys that are banned may go on. What they have used stays counted.';
  if (!(await confirmed(`Lift all bans of ${biz.name}`, told, 'Lift bans'))) return;
  await act(pressed, `${biz.name}: no key is banned.`, async () => {
    try {
      return await changeText(biz, '?lift-bans=true', text => text);
    } catch (error) {
      if (error.status !== 400) throw error;
      throw new Error('Not available: this server lifts bans by a reset only.');
    }
  });
}
async function removeBiz(biz, pressed) {
  const told =
    'Nothing limits it any more: items that name it are errors. Its text leaves map.xml.';
  if (!(await confirmed(`Remove ${biz.name}`, told, 'Remove'))) return;
  if (await act(pressed, `${biz.name} is removed.`, () => change('DELETE', bizPath(biz)))) {
    location.hash = '#/businesses';
  }
}

// Its keys.

async function readUsed(state) {
  const biz = bizNamed(state.name);
  if (!biz || !isNamed(biz)) return;
  state.used = listIn(await get(`top?biz=${biz.id}&n=${HOT}`), 'top', 'nodes');
}
async function readRefused(state) {
  const biz = bizNamed(state.name);
  if (!biz || !isNamed(biz) || state.refusedGone) return;
  const { window } = state;
  const told = await getIfThere(`top?biz=${biz.id}&by=refused&window=${window}&n=${HOT}`);
  if (window !== state.window) return;
  state.refused = told ? listIn(told, 'top', 'nodes') : null;
  state.refusedGone = !told;
}
const keyWindow = state =>
  radios('biz-window', 'Window', WINDOWS, state.window, window => {
    state.window = window;
    hurry('biz-refused');
    look();
  });

function showKeys(hot, most, state, biz) {
  const told = (list, none) => (list === null ? 'Looking…' : list.length ? '' : none);
  put($('no-hot'), told(state.used, 'No key is in use.'));
  put(
    $('no-biz-refused'),
    state.refusedGone
      ? 'Not available: this server does not count refused keys.'
      : told(state.refused, 'No key was refused in this time.'),
  );
  hot.node.hidden = !state.used || !state.used.length;
  most.node.hidden = !state.refused || !state.refused.length;
  const act = key =>
    isDigest(key)
      ? null
      : el(
          'span',
          { class: 'acts' },
          button('Show', () => state.showKey(key), {
            class: 'small',
            'aria-label': 'Show the key ' + key,
          }),
          button('Reset', pressed => resetKey(biz, key, pressed), {
            class: 'small',
            'aria-label': 'Reset the key ' + key,
          }),
        );
  fill(
    hot,
    state.used || [],
    one => one.key,
    one => [keyName(one.key), count(one.used), agoWords(one.last), act(one.key)],
  );
  fill(
    most,
    state.refused || [],
    one => one.key,
    one => [keyName(one.key, one.begins), refusedWords(one), agoWords(one.last), act(one.key)],
  );
}
