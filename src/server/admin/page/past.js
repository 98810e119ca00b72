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
const LATELY_MS = 5000; // What a rate of now is over: an attack is seen at once.
const past = {
  served: undefined, // Whether the server keeps a history; unknown before the first answer.
  denied: 0, // How it said that there is none: for good (400), or for now (503).
  askAgainAt: 0,
  seconds: [],
  minutes: [],
  loaded: 0, // The minutes that were asked for.
  range: 5,
  looks: [], // The totals of the looks of the last seconds.
  recent: [], // Each ten seconds, of the last minute: what has no history.
};
// As the history counts: what a list decides is neither.
const PASSED = ['allowed', 'shadowed', 'degraded'];
const REFUSED = ['limited', 'banned'];
const sum = (outcomes, names) => names.reduce((all, name) => all + (outcomes[name] || 0), 0);

/** What `now` lacks of a list, in steps; all of it after the clock was set back. */
function lackingOf(list, now, stepMs, all) {
  const last = list[list.length - 1];
  return last && last.time <= now ? Math.ceil((now - last.time) / stepMs) : all;
}

/** The path of the next look: with what the rows lack. */
function statsPath(now) {
  if (past.served === false && Date.now() < past.askAgainAt) return 'stats';
  // Rows of this page are not those of the server.
  const isKnown = past.served === true;
  const lacking = isKnown ? lackingOf(past.seconds, now, 1000, SECOND_ROWS) + 2 : SECOND_ROWS;
  return `stats?since=${Math.min(SECOND_ROWS, lacking)}s`;
}

/** There is no history: for good, or for now. */
function denyHistory(status) {
  past.served = false;
  past.denied = status;
  past.loaded = 0;
  past.askAgainAt = Date.now() + (status === 503 ? 10000 : 60000);
}

/** Takes rows of the server: they replace those of the same time and later. */
function takeRows({ 'step-s': step, rows = [] }, { now, start }, path) {
  const list = step === 1 ? past.seconds : past.minutes;
  const whole = rows.filter(row => row.time + step * 1000 <= now);
  if (!whole.length) return;
  let before = list.find(row => row.time === whole[0].time && !row.isOwn);
  while (list.length && list[list.length - 1].time >= whole[0].time) list.pop();
  // Where the answer begins with a gap, nobody recorded since the row before or even longer.
  const asked = now - Number(/since=(\d+)/.exec(path)[1]) * step * 1000;
  const last = list[list.length - 1];
  if (!before && last && whole[0].time > asked + 2 * step * 1000)
    before = { time: Math.max(last.time, asked) };
  for (const row of whole) {
    const isKnown = before && before.time === row.time;
    const seconds = isKnown ? before.seconds : secondsOf(row, before, step, start);
    list.push((before = { ...row, step, seconds }));
  }
  trim();
}

/**
 * The seconds in which a row was counted: it has all since the row before, also where nobody
 * recorded for a while. Where the server did not run, it is counted since its start.
 */
function secondsOf(row, before, step, start) {
  const end = row.time + step * 1000;
  const from = before ? before.time + step * 1000 : row.time;
  const begin = from < row.time && start < end ? Math.max(from, start) : from;
  return Math.max(1, (end - begin) / 1000);
}

/** A business in a row. Undefined: it is not known, as it is counted with others there. */
function bizIn(row, name) {
  if (row.biz && Object.hasOwn(row.biz, name)) return row.biz[name];
  return row.biz && row.biz.others ? undefined : NOTHING;
}
const NOTHING = { allowed: 0, limited: 0 };

function trim() {
  past.seconds.splice(0, past.seconds.length - SECOND_ROWS);
  past.minutes.splice(0, past.minutes.length - MINUTE_ROWS);
}

/** The path of the minutes that the range lacks, or null. */
function minutesPath(now) {
  if (!past.served || past.range <= 5) return null;
  if (past.range > past.loaded) return `stats?since=${past.range}m`;
  // As much as was loaded once is kept whole.
  const lacking = lackingOf(past.minutes, now, 60000, past.loaded);
  return lacking > 2 ? `stats?since=${Math.min(past.loaded, Math.max(6, lacking + 1))}m` : null;
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
  const of = (one, other, name) => Math.max(0, one[name] - other[name]) / seconds;
  const row = { time: after.time, step: 1, seconds: 1, isOwn: true, biz: Object.create(null) };
  for (const name of ['requests', 'allowed', 'limited', 'errors']) {
    row[name] = of(after, before, name);
  }
  for (const [name, one] of after.biz) {
    const other = before.biz.get(name);
    // Under another name it was counted before: it is new, and its counters may not be.
    if (!other) continue;
    const allowed = of(one, other, 'allowed');
    const limited = of(one, other, 'limited');
    if (allowed || limited) row.biz[name] = { allowed, limited };
  }
  return row;
}

/** Notes a look: the row of now, and without a history of the server the rows of this page. */
function note(next) {
  const totals = totalsOf(next);
  const before = past.looks[past.looks.length - 1];
  noteRecent(next);
  past.now = before ? rowBetween(before, totals) : null;
  if (!past.now) past.looks = [];
  past.looks = past.looks.filter(look => totals.time - look.time <= LATELY_MS + 500);
  past.looks.push(totals);
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
    const biz = Object.create(null);
    const none = { requests: 0, allowed: 0, limited: 0, errors: 0 };
    minute = { time, step: 60, seconds: 0, isOwn: true, ...none, biz };
    past.minutes.push(minute);
  }
  minute.seconds += seconds;
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
  // After a while in which nobody looked the older ones are not recent.
  past.recent = past.recent.filter(one => now - one.time < 70000);
}

/** The time that the recent figures are of: this page may not have seen a minute yet. */
function recentWords() {
  const ms = past.recent.length ? stats.server.now - past.recent[0].time : 0;
  return ms >= 50000 ? 'in the last minute' : `in the last ${lasting(Math.max(1000, ms))}`;
}

/** What a counter has grown by recently: `of` finds it in what was noted then. */
function grownBy(now, of) {
  const then = past.recent.map(of).find(value => value !== undefined);
  return then === undefined ? 0 : Math.max(0, now - then);
}

/** What was refused recently by each limit of a business. */
const recentRefusals = biz =>
  (biz.refusals || []).map((number, nth) =>
    grownBy(number, then => (then.refusals.get(biz.name) || [])[nth]),
  );
const bansOf = biz => biz.updates.banned || 0;
const recentBans = biz => grownBy(bansOf(biz), then => then.bans.get(biz.name));
const recentEvictions = group =>
  grownBy(group['evictions-limiting'], then => then.evictions.get(group.name));

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
    const one = bizIn(rows[nth], name);
    if (one && one.limited > 0) since = end = rows[nth].time;
  }
  if (since === null) return null;
  // What was before the first row is not known.
  const older = since - rows[0].time < pause;
  return { time: older && rows[0].time - from < pause ? from : since, older };
}
