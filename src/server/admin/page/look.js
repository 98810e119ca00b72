// Looking at the server: once a second while somebody can see the page, and not at all otherwise.
// After a look at most one other question is asked, the one that has waited longest; those that a
// view lacks when it is opened are asked after the first one. No look waits for their answers.

const EVERY_MS = 1000;
let stats = null; // What /stats said last, what /health said, and what map.xml says.
let health = {};
let map = null;
let reachedAt = null;
let looking = false;
let timer;
let warned = []; // What is wrong: [kind, words].
let restartsSeen = null;
// Null where it is not known yet, false where this server does not have it.
let changes = null;
let refusedKeys = null;
let refusedWindow = '1m';

async function look() {
  if (looking || document.hidden) return;
  looking = true;
  clearTimeout(timer);
  const began = Date.now();
  try {
    if (await isReached()) {
      show();
      startChores();
    }
  } finally {
    looking = false;
    timer = setTimeout(look, Math.max(100, EVERY_MS - (Date.now() - began)));
  }
}

/** Asks for the figures. Where there is no answer the page says so. */
async function isReached() {
  try {
    const [next, told] = await Promise.all([lookAtStats(), ask('health')]);
    if (!map || map.generation !== next.server.generation) await readMap(next);
    stats = next;
    health = told.body.health || {};
    reachedAt = Date.now();
    note(next);
    return true;
  } catch (error) {
    if (error.status === undefined) throw error;
    unreached(error);
    return false;
  }
}
document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  if (!document.hidden) look();
});

async function lookAtStats() {
  const path = statsPath(stats ? stats.server.now + Date.now() - reachedAt : 0);
  const { status, body } = await ask(path);
  if ((status === 400 || status === 503) && path !== 'stats') {
    denyHistory(status);
    return get('stats');
  }
  if (status !== 200) throw refusal(status, body);
  // Another server, perhaps a newer one: it is asked again what it keeps.
  if (stats && body.server.start !== stats.server.start) {
    if (past.served === false) past.askAgainAt = 0;
    if (changes === false) changes = null;
    if (refusedKeys === false) refusedKeys = null;
  } else if (path !== 'stats') past.served = body.history !== undefined;
  if (body.history) takeRows(body.history, body.server, path);
  delete body.history;
  return body;
}

/** What map.xml says and /stats does not: the mode and the group of each business. */
async function readMap({ server, groups: all }) {
  const bizs = listIn((await get('biz')).map || {}, 'bizs', 'bizs');
  const groups = all.filter(group => group.files !== undefined).map(group => group.name);
  map = { generation: server.generation, groups, bizs: new Map(bizs.map(biz => [biz.id, biz])) };
}

// Less often than a look, and only where a view shows it. Who is refused is asked soon: an attack
// is to be seen within five seconds.
const CHORES = [
  { name: 'minutes', every: 5000, run: readMinutes, lacks: () => minutesPath(stats.server.now) },
  { name: 'changes', every: 10000, run: readChanges },
  { name: 'refused', every: 2000, run: readRefusedKeys, views: ['overview'] },
  { name: 'biz-refused', every: 2000, run: () => view.lookAtRefused?.(), views: ['biz'] },
  { name: 'biz-used', every: 10000, run: () => view.lookAtUsed?.(), views: ['biz'] },
];

/** Who asks: a view, or the whole page. */
const asker = chore => (chore.views ? view : document);

function startChores() {
  const now = Date.now();
  // One that still waits for its answer is not asked again, except for another view. Looks are not
  // an exact second apart.
  const isDue = chore =>
    (!chore.views || chore.views.includes(view.name)) &&
    chore.waits !== asker(chore) &&
    now - (chore.at || 0) >= chore.every - EVERY_MS / 2 &&
    (!chore.lacks || chore.lacks());
  const due = CHORES.filter(isDue).sort((one, other) => (one.at || 0) - (other.at || 0));
  const hurried = due.filter(chore => !chore.at);
  for (const chore of hurried.length ? hurried : due.slice(0, 1)) doChore(chore, now);
}
async function doChore(chore, now) {
  const waits = asker(chore);
  Object.assign(chore, { at: now, waits });
  try {
    await chore.run();
    view.show();
  } catch (error) {
    // The next look tells what is not reached.
    if (error.status === undefined) throw error;
  } finally {
    if (chore.waits === waits) chore.waits = null;
  }
}
const isQuiet = () => !looking && CHORES.every(chore => !chore.waits);
/** Does chores with the next look; what belongs to a view does not wait for the answer before. */
function hurry(...names) {
  for (const chore of CHORES) {
    if (!names.includes(chore.name)) continue;
    chore.at = 0;
    if (chore.views) chore.waits = null;
  }
}

async function readMinutes() {
  const path = minutesPath(stats.server.now);
  const range = past.range;
  if (!path) return;
  const { history } = await get(path);
  if (!history) return;
  takeRows(history, stats.server, path);
  past.loaded = Math.max(past.loaded, range);
}

async function readChanges() {
  if (changes === false) return;
  const body = await getIfThere('changes?n=50');
  changes = body ? listIn(body, 'changes', 'changes') : false;
}

async function readRefusedKeys() {
  if (refusedKeys === false) return;
  const window = refusedWindow;
  const body = await getIfThere(`top?by=refused&window=${window}&n=10`);
  if (window !== refusedWindow) return;
  refusedKeys = body ? listIn(body, 'top', 'nodes') : false;
}

function show() {
  const { server } = stats;
  document.body.classList.remove('stale');
  put(
    $('server'),
    `${server.version} · up ${lasting(server.now - server.start)} · ` +
      `generation ${server.generation}`,
  );
  $('nav-clients').hidden = !stats.clients;
  $('nav-cluster').hidden = !stats.cluster;
  $('nav-peers').hidden = !stats.peers;
  warn();
  view.show();
}

/** What is wrong, in words, worst first. */
function warnings() {
  const { server, groups } = stats;
  const list = [];
  const down = health.workers ? health.workers.expected - health.workers.alive : 0;
  // What is missing of the workers is said once.
  const faults = (health.faults || []).filter(fault => !down || !fault.startsWith('workers: '));
  for (const fault of faults) list.push(['bad', fault]);
  if (down > 0) list.push(['bad', `${down === 1 ? 'A worker is' : down + ' workers are'} down.`]);
  const { note } = health.configuration || {};
  if (note) list.push(['', note + '.']);
  if (server.degraded) list.push(['', 'Degraded: nothing is limited at the moment.']);
  for (const group of groups) {
    const all = group['evictions-limiting'];
    const now = recentEvictions(group);
    if (all > 0)
      list.push([
        '',
        `Group ${group.name}: ${count(all)} counters that limited were ` +
          `evicted, ${now > 0 ? count(now) : 'none'} of them lately. ` +
          'The group is too small, or under attack.',
      ]);
  }
  const restarts = server['worker-restarts'];
  if (restartsSeen === null || restarts < restartsSeen) restartsSeen = restarts;
  if (restarts > restartsSeen) {
    list.push(['', `Workers restarted since this page was opened: ${restarts - restartsSeen}.`]);
  }
  return list;
}

function warn() {
  warned = warnings();
  const ill = warned.some(([kind]) => kind === 'bad');
  alerts(warned);
  state(ill ? 'gone' : warned.length ? 'warn' : 'live', ill ? 'not well' : 'live');
  title(ill ? 'not well' : '');
}
function state(kind, told) {
  $('state').className = 'pill ' + kind;
  put($('state'), told);
}
function title(told) {
  const name = told ? `frs: ${told}` : view.title ? `${view.title} – frs` : 'frs';
  if (document.title !== name) document.title = visible(name);
}
function alerts(list) {
  // The number changes and the alert is the same one: it is not read out each second.
  sync(
    $('alerts'),
    list,
    ([kind, told]) => kind + told.replace(/[\d,]+/g, ''),
    ([kind]) => el('li', { class: kind }),
    (item, [, told]) => put(item, told),
  );
}

function unreached(error) {
  document.body.classList.add('stale');
  state('gone', 'not reached');
  title('not reached');
  const since = reachedAt ? `since ${clock(reachedAt)}: the figures below are from then` : 'yet';
  warned = [
    [
      'bad',
      `Cannot reach the keeper ${since}. Trying again every second. Workers answer and ` +
        `limit without it; frs status shows them. (${error.message})`,
    ],
  ];
  alerts(warned);
  view.show();
}
