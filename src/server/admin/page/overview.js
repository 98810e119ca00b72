// The first view, in the order in which somebody on call asks: is it healthy; what is refused,
// whom, since when; what changed just before; is there room.

const MOST_ROWS = 8;
const REFUSING_MS = 2000; // Between two sortings of who refuses: an attack is soon first.

VIEWS[''] = () => {
  const charts = [refusedChart(), itemsChart(), latencyChart()];
  const refusing = table(
    'Businesses that refuse',
    [
      ['Business'],
      ['Refused/s', 'num'],
      ['Share', 'num'],
      ['Since', 'num'],
      ['Which limit', 'grow'],
    ],
    { id: 'refusing' },
  );
  const keys = table(
    'Keys that are refused most',
    [['Key', 'key'], ['Business'], ['Refused', 'num'], ['Last', 'num']],
    { id: 'refused-keys' },
  );
  const changed = table(
    'Latest changes',
    [['When'], ['Who'], ['What'], ['Target'], ['Before and after', 'grow']],
    { id: 'latest-changes' },
  );
  const room = table(
    'Room in the groups',
    [
      ['Group'],
      ['In use', 'num'],
      ['Live', 'num'],
      ['Free', 'num'],
      ['Evicted idle', 'num'],
      ['That limited', 'num'],
    ],
    { id: 'room-short' },
  );
  const ordered = settled(refusing.body, REFUSING_MS, ({ biz }) => keyOfBiz(biz));
  const told = name => el('p', { class: 'soft', id: name });
  const node = el(
    'div',
    {},
    heading('Overview'),
    section('Health', { id: 'health' }, el('p', { id: 'verdict' }), nowTiles(), switches()),
    section(
      'Traffic and refusals',
      {},
      el('div', { class: 'row' }, rangeChoice()),
      el(
        'div',
        { class: 'charts' },
        charts.map(one => one.node),
      ),
      el(
        'div',
        { class: 'two' },
        el('div', {}, el('h3', {}, 'Businesses that refuse'), told('no-refusing'), refusing.node),
        el(
          'div',
          {},
          el('div', { class: 'row' }, el('h3', {}, 'Keys refused most'), windowChoice()),
          told('no-refused-keys'),
          keys.node,
        ),
      ),
    ),
    el(
      'div',
      { class: 'two' },
      section(
        'What changed',
        {},
        told('no-changes'),
        changed.node,
        el('p', {}, link('All changes', '#/changes')),
      ),
      section('Room', {}, room.node, el('p', {}, link('All about the groups', '#/room'))),
    ),
  );
  const show = () => {
    if (!stats) return;
    showNow();
    const range = rowsInRange();
    charts.forEach(one => draw(one, range, marksOf()));
    showRefusing(refusing, ordered);
    showRefusedKeys(keys);
    showLatestChanges(changed);
    showRoom(room);
  };
  return { name: 'overview', title: '', node, show };
};

const nowTiles = () =>
  el(
    'div',
    { class: 'tiles' },
    tile('now-passed', 'Passed', 'items a second'),
    tile('now-refused', 'Refused', 'items a second'),
    tile('now-share', 'Refused share', 'of items now'),
    tile('now-errors', 'Errors', 'items a second'),
    tile('now-requests', 'Requests', 'a second'),
    tile('now-p50', 'p50', 'now'),
    tile('now-p99', 'p99', 'now'),
    tile('connections', 'Connections', 'open'),
  );

/** What the whole server can be told. */
const switches = () =>
  el(
    'div',
    { class: 'row' },
    button(
      'Reload the files',
      async pressed => {
        const told =
          'The server reads srv.xml and map.xml as they are now. A fault changes nothing.';
        if (await confirmed('Reload', told, 'Reload')) {
          act(pressed, 'The files are in force.', () => change('POST', 'reload'));
        }
      },
      { id: 'reload' },
    ),
    button(
      'Switch limits off',
      async pressed => {
        const on = !stats.server.degraded;
        const told = on
          ? 'Every item passes, and nothing is counted, until limits are switched on again.'
          : 'Limits judge and count again.';
        if (
          await confirmed(
            on ? 'Switch all limits off' : 'Switch limits on',
            told,
            on ? 'Switch off' : 'Switch on',
          )
        ) {
          act(pressed, on ? 'Limits are off.' : 'Limits are on.', () =>
            change('POST', 'degrade?on=' + on),
          );
        }
      },
      { id: 'degrade' },
    ),
  );

const WINDOWS = [
  ['1m', 'last minute'],
  ['1h', 'last hour'],
];
const windowChoice = () =>
  radios('window', 'Window', WINDOWS, refusedWindow, window => {
    refusedWindow = window;
    hurry('refused');
    look();
  });

/** Whether it is healthy, in one sentence. */
function verdict() {
  const bad = warned.filter(([kind]) => kind === 'bad').length;
  if (bad) return ['bad', `Not well: ${plural(bad, 'fault', 'faults')}, above.`];
  const { alive, expected } = health.workers || {};
  const workers =
    alive === undefined
      ? '.'
      : `: ${alive} of ${plural(expected, 'worker', 'workers')}, ` +
        `${stats.server['worker-restarts']} restarted since the start.`;
  return warned.length
    ? ['warn', 'Serving, with a warning above' + workers]
    : ['good', 'Healthy' + workers];
}

function showNow() {
  const { server, counters, latency } = stats;
  const [kind, told] = verdict();
  put($('verdict'), told);
  $('verdict').className = kind;
  put($('connections'), count(counters.connections));
  put($('degrade'), server.degraded ? 'Switch limits on' : 'Switch limits off');
  // The last row of the charts, so that both say the same.
  const row = past.seconds[past.seconds.length - 1];
  for (const name of ['p50', 'p99']) {
    const us = name + '-us';
    put($('now-' + name), micros(past.served && row ? row[us] : latency[us]));
    put($(`now-${name}-note`), past.served && row ? 'now' : 'since the start');
  }
  if (!row) return;
  for (const [id, name] of [
    ['passed', 'allowed'],
    ['refused', 'limited'],
    ['errors', 'errors'],
    ['requests', 'requests'],
  ])
    put($('now-' + id), rate(perSecond(name)(row)));
  put($('now-share'), share(row.limited, row.allowed + row.limited + row.errors));
}

function showRefusing(into, ordered) {
  const refusing = stats.bizs
    .filter(biz => !biz.removed)
    .map(biz => ({ biz, now: lately(biz), minute: over(biz, 60000) || sinceStart(biz) }))
    .filter(one => one.now.refused > 0 || one.minute?.refused > 0);
  const byRate = list =>
    list.sort(
      (one, other) =>
        other.now.refused - one.now.refused ||
        (other.minute?.refused || 0) - (one.minute?.refused || 0),
    );
  const found = ordered(refusing, byRate);
  into.node.hidden = !found.length;
  put(
    $('no-refusing'),
    !found.length
      ? 'Nothing was refused in the last minute.'
      : found.length > MOST_ROWS
        ? `${found.length - MOST_ROWS} more refuse less.`
        : '',
  );
  fill(
    into,
    found.slice(0, MOST_ROWS),
    ({ biz }) => keyOfBiz(biz),
    ({ biz, now }) => [
      bizLink(biz.name),
      rate(now.refused),
      share(now.refused, now.all),
      sinceWords(biz),
      limitWords(biz),
    ],
  );
}
function sinceWords(biz) {
  const since = refusingSince(biz.name);
  if (!since) return '–';
  return since.older ? `over ${lasting(stats.server.now - since.time)}` : moment(since.time);
}
/** Which limit refuses: of the last minute, else since the start. */
function limitWords(biz) {
  const only = biz.limits.length === 1 ? biz.limits[0].words : undefined;
  if (!biz.refusals) return only || 'not available';
  const recent = recentRefusals(biz);
  const all = recent.some(number => number > 0) ? recent : biz.refusals;
  const most = all.indexOf(Math.max(...all));
  if (!all[most] || recentBans(biz) > all[most]) return only || 'a ban in force';
  const others = all.filter(number => number > 0).length - 1;
  return (biz.limits[most]?.words || `limit ${most + 1}`) + (others ? ` (and ${others} more)` : '');
}

function showRefusedKeys(into) {
  const list = refusedKeys || [];
  into.node.hidden = !list.length;
  put(
    $('no-refused-keys'),
    refusedKeys === false
      ? 'Not available: this server does not count refused keys.'
      : refusedKeys === null
        ? 'Looking…'
        : list.length
          ? ''
          : 'No key was refused in this time.',
  );
  fill(
    into,
    list,
    one => one.biz + '\n' + one.key,
    one => [keyName(one.key, one.begins), bizLink(one.biz), refusedWords(one), agoWords(one.last)],
  );
}
const refusedWords = one => count(one.refused) + (one.error ? ` (± ${count(one.error)})` : '');
const agoWords = ms => lasting(stats.server.now - ms) + ' ago';

function showLatestChanges(into) {
  const list = (changes || []).slice(0, 5);
  into.node.hidden = !list.length;
  put(
    $('no-changes'),
    changes === false
      ? 'Not available: this server keeps no log of changes.'
      : changes === null
        ? 'Looking…'
        : list.length
          ? ''
          : 'Nothing was changed.',
  );
  fill(
    into,
    list,
    one => one.id,
    one => [
      fullMoment(Date.parse(one.time)),
      one.who,
      WHAT[one.what] || one.what,
      one.target || '',
      shortDifference(one),
    ],
  );
}

const CROWDED = 0.85; // Of the places in use: chains fill up long before the group does.

function showRoom(into) {
  const groups = stats.groups.filter(group => group.files !== undefined);
  fill(
    into,
    groups,
    group => group.name,
    group => [
      link(group.name, '#/room'),
      share(group.live, placesOf(group)) + (group.free === 0 ? ', full' : ''),
      count(group.live),
      count(group.free),
      count(group['evictions-idle']),
      evictedWords(group),
    ],
  );
  groups.forEach((group, nth) => {
    const isCrowded = group.live > CROWDED * placesOf(group);
    into.body.children[nth].className = isCrowded ? 'hot' : '';
  });
}

const placesOf = group => (group.live === undefined ? 0 : group.live + group.expired + group.free);
const evictedWords = group =>
  count(group['evictions-limiting']) +
  (recentEvictions(group) > 0 ? ` (${count(recentEvictions(group))} ${recentWords()})` : '');
