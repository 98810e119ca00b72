// What happened when: rows of counts, by second for five minutes and by minute for a day. They are
// the server's history where it keeps one, else what this page has seen. Both lists are bounded.

const SECOND_ROWS = 300;
const MINUTE_ROWS = 1440;
const RANGES = [
  [5, '5 min'],
  [15, '15 min'],
  [60, '1 h'],
  [360, '6 h'],
  [1440, '24 h'],
];
const ASK_AGAIN_MS = 60000;
const past = {
  served: undefined, // Whether the server keeps a history; unknown before the first answer.
  deniedAt: 0, // When it said that it has none, for good (400) or for now (503).
  seconds: [],
  minutes: [],
  loaded: 0, // The minutes that were asked for.
  range: 5,
  recent: [], // Each ten seconds, of the last minute: what has no history.
};
const PASSED = ['allowed', 'shadowed', 'degraded', 'listed'];
const REFUSED = ['limited', 'banned'];
const sum = (outcomes, names) => names.reduce((all, name) => all + (outcomes[name] || 0), 0);

/** The path of the next look: with what the rows lack. */
function statsPath(now) {
  if (past.served === false && Date.now() - past.deniedAt < ASK_AGAIN_MS) return 'stats';
  const last = past.seconds[past.seconds.length - 1];
  const lacking = last ? Math.ceil((now - last.time) / 1000) + 2 : SECOND_ROWS;
  return `stats?since=${Math.min(SECOND_ROWS, Math.max(3, lacking))}s`;
}

/** Takes rows of the server: they replace those of the same time and later. */
function takeRows({ 'step-s': step, rows = [] }, now) {
  const list = step === 1 ? past.seconds : past.minutes;
  const whole = rows.filter(row => row.time + step * 1000 <= now);
  if (!whole.length) return;
  while (list.length && list[list.length - 1].time >= whole[0].time) list.pop();
  for (const row of whole) list.push({ ...row, step });
  trim();
}

function trim() {
  past.seconds.splice(0, past.seconds.length - SECOND_ROWS);
  past.minutes.splice(0, past.minutes.length - MINUTE_ROWS);
}

/** The path of the minutes that the range lacks, or null. */
function minutesPath(now) {
  if (!past.served || past.range <= 5) return null;
  if (past.range > past.loaded) return `stats?since=${past.range}m`;
  const last = past.minutes[past.minutes.length - 1];
  const lacking = last ? Math.ceil((now - last.time) / 60000) + 1 : past.range;
  return lacking > 2 ? `stats?since=${Math.min(past.range, Math.max(6, lacking))}m` : null;
}

/** The totals of a document, and of each business. */
function totalsOf(next) {
  const all = {
    time: next.server.now,
    start: next.server.start,
    requests: 0,
    allowed: 0,
    limited: 0,
    errors: 0,
    biz: new Map(),
  };
  for (const biz of next.bizs) {
    const one = { allowed: 0, limited: 0, errors: 0 };
    for (const items of [biz.queries, biz.updates]) {
      one.allowed += sum(items, PASSED);
      one.limited += sum(items, REFUSED);
      one.errors += items.error || 0;
    }
    all.biz.set(biz.name, one);
    for (const name of ['allowed', 'limited', 'errors']) all[name] += one[name];
  }
  for (const request of next.requests) all.requests += request.count;
  return all;
}

/** The difference of two looks as a row of one second; null after a restart or a clock set back. */
function rowBetween(before, after) {
  const seconds = (after.time - before.time) / 1000;
  if (before.start !== after.start || seconds <= 0 || after.requests < before.requests) return null;
  const of = (one, other, name) => Math.max(0, one[name] - (other ? other[name] : 0)) / seconds;
  const row = { time: after.time, step: 1, biz: {} };
  for (const name of ['requests', 'allowed', 'limited', 'errors']) {
    row[name] = of(after, before, name);
  }
  for (const [name, one] of after.biz) {
    const other = before.biz.get(name);
    const allowed = of(one, other, 'allowed');
    const limited = of(one, other, 'limited');
    if (allowed || limited) row.biz[name] = { allowed, limited };
  }
  return row;
}

/** Notes a look: the row of now, and without a history of the server the rows of this page. */
function note(next) {
  const totals = totalsOf(next);
  const before = past.totals;
  past.totals = totals;
  noteRecent(next);
  past.now = before ? rowBetween(before, totals) : null;
  if (past.served) return;
  if (before && !past.now && before.time !== totals.time) [past.seconds, past.minutes] = [[], []];
  if (!past.now) return;
  past.seconds.push(past.now);
  addToMinute(past.now, (totals.time - before.time) / 1000);
  trim();
}

function addToMinute(row, seconds) {
  const time = row.time - (row.time % 60000);
  let minute = past.minutes[past.minutes.length - 1];
  if (!minute || minute.time !== time) {
    minute = { time, step: 60, requests: 0, allowed: 0, limited: 0, errors: 0, biz: {} };
    past.minutes.push(minute);
  }
  for (const name of ['requests', 'allowed', 'limited', 'errors'])
    minute[name] += row[name] * seconds;
  for (const [name, one] of Object.entries(row.biz)) {
    const all = minute.biz[name] || (minute.biz[name] = { allowed: 0, limited: 0 });
    all.allowed += one.allowed * seconds;
    all.limited += one.limited * seconds;
  }
}

function noteRecent(next) {
  const { now } = next.server;
  const last = past.recent[past.recent.length - 1];
  if (last && (last.time > now || last.start !== next.server.start)) past.recent = [];
  else if (last && now - last.time < 10000) return;
  past.recent.push({
    time: now,
    start: next.server.start,
    cluster: sharedTotals(next),
    refusals: new Map(next.bizs.map(biz => [biz.name, biz.refusals])),
    bans: new Map(next.bizs.map(biz => [biz.name, bansOf(biz)])),
    evictions: new Map(next.groups.map(group => [group.name, group['evictions-limiting']])),
  });
  past.recent.splice(0, past.recent.length - 7);
}

/** What was refused by each limit of a business in the last minute, as far as this page saw it. */
function recentRefusals(biz) {
  const before = past.recent.length && past.recent[0].refusals.get(biz.name);
  return (biz.refusals || []).map((number, nth) => number - ((before && before[nth]) || 0));
}
const bansOf = biz => biz.updates.banned || 0;
const recentBans = biz =>
  bansOf(biz) - ((past.recent.length && past.recent[0].bans.get(biz.name)) || 0);
const recentEvictions = group =>
  past.recent.length
    ? group['evictions-limiting'] - (past.recent[0].evictions.get(group.name) || 0)
    : 0;

/** The rows of the range, oldest first. */
function rowsInRange() {
  const list = past.range <= 5 ? past.seconds : past.minutes;
  const now = stats ? stats.server.now : 0;
  const from = now - past.range * 60000;
  return {
    from,
    to: now,
    step: past.range <= 5 ? 1 : 60,
    rows: list.filter(row => row.time >= from),
  };
}

/** Since when a business refuses without a long pause: {time, older: perhaps longer}; or null. */
function refusingSince(name) {
  const { from, to, step, rows } = rowsInRange();
  const pause = Math.max(30000, 3 * step * 1000);
  let since = null;
  let end = to;
  for (let nth = rows.length - 1; nth >= 0 && end - rows[nth].time <= pause + step * 1000; nth--) {
    const one = rows[nth].biz && rows[nth].biz[name];
    if (one && one.limited > 0) since = end = rows[nth].time;
  }
  if (since === null) return null;
  // What was before the first row is not known.
  const older = since - rows[0].time < pause;
  return { time: older && rows[0].time - from < pause ? from : since, older };
}
