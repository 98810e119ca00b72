// One key: in one business, or in all of them.

const AT_ONCE = 4; // Questions at a time. The server keeps eight waiting, of all clients.
const TRIES = 5; // Where it is busy.
const HOLDS_SHOWN = 8;

/** What a record says, in words: a line for each limit and for each of its first holds, or the
 * register. */
function nodeLines(found) {
  const lines = (found.limits || []).map(
    limit =>
      `${limit.index}. ${limit.policy}: ` +
      `${count(limit.used)} of ${count(limit.max)} used${limit.limited ? ', limited' : ''}` +
      (limit.reset ? `, turns in ${lasting(limit.reset)}` : '') +
      (limit.lease ? leaseWords(limit.lease) : ''),
  );
  if (isBanned(found)) lines.push('banned until ' + moment(found['banned-until']));
  if (found.held !== undefined) lines.push(...holdLines(found));
  if (found['once-ids']) lines.push(`remembers ${plural(found['once-ids'], 'id', 'ids')}`);
  if (found.value !== undefined) lines.push(...registerLines(found));
  return lines;
}

function registerLines({ value, expires }) {
  const { now } = stats.server;
  const end =
    expires === undefined
      ? 'never expires'
      : expires > now
        ? `expires in ${lasting(expires - now)}`
        : `expired ${lasting(now - expires)} ago`;
  return [`value ${JSON.stringify(value)}`, end];
}

/** What is held, and the holds: the server names those that live first. */
function holdLines({ held, holds = [] }) {
  const { now } = stats.server;
  const others = holds.length - HOLDS_SHOWN;
  const line = hold =>
    `   ${hold.id}: ${count(hold.count)} ${hold.state}, made ${lasting(now - hold.made)} ago, ` +
    (hold.until > now
      ? `ends in ${lasting(hold.until - now)}`
      : `ended ${lasting(now - hold.until)} ago`);
  return [
    `${count(held)} held` + (holds.length ? `, ${plural(holds.length, 'hold', 'holds')}:` : ''),
    ...holds.slice(0, HOLDS_SHOWN).map(line),
    ...(others > 0 ? [`   and ${plural(others, 'other', 'others')}`] : []),
  ];
}
const isBanned = found => found['banned-until'] > stats.server.now;

function leaseWords(lease) {
  const ends =
    lease.ends === undefined
      ? 'never ends'
      : lease.ends
        ? `ends in ${lasting(lease.ends)}`
        : 'has ended';
  const age = lease.age < 1000 ? lease.age + ' ms' : lasting(lease.age);
  const uses =
    lease['used-elsewhere'] === undefined
      ? `${count(lease.used)} of ${count(lease.allowance)} allowed used`
      : `${count(lease.used)} used, ${count(lease.allowance)} told`;
  const elsewhere =
    lease.elsewhere === undefined
      ? `${count(lease['used-elsewhere'])} used`
      : `${count(lease.elsewhere)} left`;
  return (
    `\n   here: ${uses}` +
    (lease.void ? ', void' : lease.window ? `, ${ends}` : ', no lease') +
    (lease['in-flight'] ? ', asking' : '') +
    '\n   elsewhere: ' +
    (lease.age === undefined ? 'not heard of' : `${elsewhere}, heard ${age} ago`)
  );
}

// In one business.

function keyForm(state) {
  const key = el('input', { id: 'key', autocomplete: 'off', spellcheck: 'false', size: 20 });
  const said = el('pre', { role: 'status', id: 'key-said' });
  // The server takes names, too: the figures do not yet tell the number of a new business.
  const biz = () => bizNamed(state.name) || { id: state.name, name: state.name };
  state.showKey = text => {
    key.value = text;
    key.focus();
    showKey(biz(), text, said);
  };
  const run = act => async pressed => {
    if (!key.value) return;
    await act(biz(), key.value, pressed);
    showKey(biz(), key.value, said);
  };
  return el(
    'form',
    {
      class: 'row',
      onsubmit: event => {
        event.preventDefault();
        if (key.value) showKey(biz(), key.value, said);
      },
    },
    el('label', {}, 'Key ', key),
    el('button', { type: 'submit', id: 'key-show' }, 'Show'),
    button('Unban', run(unban), { id: 'key-unban' }),
    button('Reset key', run(resetKey), { id: 'key-reset' }),
    said,
  );
}
let shownLast = 0;
async function showKey(biz, key, into) {
  const turn = ++shownLast;
  let told;
  try {
    const { node: found } = await get(nodePath(biz, key));
    told = `last used ${moment(found.last)}\n${nodeLines(found).join('\n')}`;
  } catch (error) {
    told = error.status === 404 ? 'This key has no record here.' : error.message;
  }
  // Another key may be asked for by now.
  if (turn === shownLast) put(into, told);
}
async function resetKey(biz, key, pressed) {
  const told = hasRegisters(biz)
    ? `${biz.name}: the register “${key}” is removed.`
    : `${biz.name}: the counters of “${key}” start afresh.`;
  if (!(await confirmed('Reset a key', told, 'Reset key'))) return;
  const done = `${biz.name}: “${key}” is fresh.`;
  await act(pressed, done, () => change('DELETE', nodePath(biz, key)));
}
const noBan = (biz, key) => `${biz.name}: “${key}” has no ban.`;
/** Lifts a ban. Limits that are full are set to 0, or the next use would ban the key again. */
async function unban(biz, key, pressed) {
  try {
    const { node: found } = await get(nodePath(biz, key));
    if (!isBanned(found)) return toast(noBan(biz, key));
  } catch (error) {
    return toast(error.status === 404 ? noBan(biz, key) : error.message);
  }
  const told =
    `${biz.name}: “${key}” may go on. Limits that it has used up start afresh, ` +
    'the others stay.';
  if (!(await confirmed('Unban a key', told, 'Unban'))) return;
  await act(pressed, `${biz.name}: “${key}” is not banned.`, async () => {
    const { node: found } = await get(nodePath(biz, key));
    const limits = found.limits || [];
    const full = limits.filter(limit => limit.limited);
    const list = full.length
      ? full.map(limit => [limit.index, 0])
      : limits.slice(0, 1).map(limit => [limit.index, limit.used]);
    for (const [limit, used] of list) {
      await change('PUT', `${nodePath(biz, key)}&limit=${limit}&used=${used}`);
    }
    const { node: after } = await get(nodePath(biz, key));
    if (isBanned(after))
      throw new Error('The ban stands: this server lifts it by a reset of the key.');
  });
}

// In all businesses.

VIEWS.key = key => {
  const found = table(
    'Businesses that know the key',
    [['Business'], ['Limits', 'lines'], ['Last used', 'num'], ['Do', 'act']],
    { id: 'key-found' },
  );
  const told = el('p', { id: 'key-told', role: 'status' });
  const node = el(
    'div',
    {},
    heading('A key in all businesses'),
    el('p', { class: 'key', id: 'key-name' }, key),
    told,
    found.node,
  );
  const search = { key, rows: [], done: 0, all: 0, failed: 0, ended: false, began: false };
  const paint = () => {
    found.node.hidden = !search.rows.length;
    if (!search.began) return put(told, 'Looking…');
    put(
      told,
      `${search.ended ? 'Looked' : 'Looking'} in ${search.done} of ` +
        plural(search.all, 'business', 'businesses') +
        `: ${search.rows.length} ${search.rows.length === 1 ? 'has' : 'have'} a record` +
        (search.failed ? `, ${search.failed} could not be asked.` : '.'),
    );
    fill(
      found,
      search.rows,
      one => one.biz.id,
      one => [bizLink(one.biz.name), one.lines, agoWords(one.last), keyButtons(one, search, paint)],
    );
    // Who is not banned has nothing to be lifted.
    search.rows.forEach((one, nth) => {
      const [lift, reset] = found.body.children[nth].querySelectorAll('button');
      if (!one.banned && document.activeElement === lift) reset.focus();
      lift.hidden = !one.banned;
    });
  };
  const show = () => {
    if (stats && !search.began) searchKey(search, paint);
  };
  return {
    name: 'key',
    title: 'Key',
    node,
    show,
    close: () => {
      search.closed = true;
    },
  };
};

function keyButtons(one, search, paint) {
  const run = act => async pressed => {
    await act(one.biz, search.key, pressed);
    await askKey(search, one.biz);
    paint();
  };
  return el(
    'span',
    { class: 'acts' },
    button('Unban', run(unban), { class: 'small', 'aria-label': 'Unban in ' + one.biz.name }),
    button('Reset', run(resetKey), { class: 'small', 'aria-label': 'Reset in ' + one.biz.name }),
  );
}

/** Asks each business, a few at a time. */
async function searchKey(search, paint) {
  const list = stats.bizs.filter(isNamed);
  Object.assign(search, { began: true, all: list.length });
  const next = async () => {
    for (let biz = list.shift(); biz && !search.closed; biz = list.shift()) {
      await askKey(search, biz);
      search.done++;
      paint();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  search.ended = true;
  paint();
}
async function askKey(search, biz) {
  for (let tried = 0; tried < TRIES && !search.closed; tried++) {
    try {
      const { status, body } = await askWithToken(nodePath(biz, search.key));
      if (status === 503) {
        await pause(1000);
        continue;
      }
      // 404: no record. 400: no key of this business, such as a word where keys are numbers.
      const lines = status === 200 ? nodeLines(body.node).join('\n') : '';
      const others = search.rows.filter(one => one.biz.id !== biz.id);
      const found = () => ({ biz, lines, last: body.node.last, banned: isBanned(body.node) });
      search.rows = status === 200 ? [...others, found()] : others;
      if (status !== 200 && status !== 404 && status !== 400) search.failed++;
      return;
    } catch {
      await pause(1000);
    }
  }
  search.failed++;
}
const pause = ms => new Promise(done => setTimeout(done, ms));
