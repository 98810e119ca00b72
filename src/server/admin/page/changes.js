// The log of changes: who changed what, when, from what to what; and taking a change back.

const PAGE = 50;
const MOST_CHANGES = 1000;
const WHOLE_BYTES = 250000; // A short answer with less text than this is the end of the log.

VIEWS.changes = () => {
  const list = el('ol', { class: 'changes', id: 'changes' });
  const told = el('p', { class: 'soft', id: 'changes-told' });
  const state = { known: new Map(), ended: false, all: [] };
  const show = () => {
    noteChanges(state, changes || []);
    put(told, changesWords(state.all));
    older.hidden = state.ended || !state.all.length || state.all.length >= MOST_CHANGES;
    sync(list, state.all, one => one.id, changeItem);
  };
  const older = button('Older', pressed => readOlder(state, pressed, show), { id: 'older' });
  const node = el('div', {}, heading('Changes'), told, list, older);
  return { name: 'changes', title: 'Changes', node, show };
};

/** Adds changes that were answered; the view keeps what it has shown. */
function noteChanges(state, list) {
  for (const one of list) state.known.set(one.id, one);
  state.all = [...state.known.values()].sort((one, other) => other.id - one.id);
  for (const one of state.all.splice(MOST_CHANGES)) state.known.delete(one.id);
  const isShort = list.length < PAGE && JSON.stringify(list).length < WHOLE_BYTES;
  if (changes && isShort) state.ended = true;
}

function changesWords(list) {
  if (changes === false) return 'Not available: this server keeps no log of changes.';
  if (changes === null) return 'Looking…';
  return list.length ? '' : 'Nothing was changed.';
}

async function readOlder(state, pressed, show) {
  pressed.disabled = true;
  try {
    const before = state.all[state.all.length - 1].id;
    noteChanges(
      state,
      listIn(await get(`changes?n=${PAGE}&before=${before}`), 'changes', 'changes'),
    );
  } catch (error) {
    toast(error.message);
  }
  pressed.disabled = false;
  show();
}

const WHAT = named({
  biz: 'business',
  node: 'key',
  reset: 'reset',
  reload: 'reload',
  degrade: 'switch',
  'lift-bans': 'bans lifted',
  undo: 'taken back',
});

/** What a change was from and to; what the log holds in a word is told in words. */
const SWITCHED = named({ true: 'limits off', false: 'limits on' });
function told(what, text) {
  if (text === undefined) return text;
  if (what === 'degrade') return SWITCHED[text] || text;
  return what === 'reload' && /^\d+(: |$)/.test(text) ? 'generation ' + text : text;
}
const oldOf = one => told(one.what, one.old);
const newOf = one => told(one.what, one.new);

/** The business that a change was of: the target of a key is BIZ/KEY. */
const bizOf = one => (one.target || '').split('/')[0];
const mayTakeBack = one => one.what === 'biz' || one.what === 'undo';

function changeItem(one) {
  const name = bizOf(one);
  const isThere = stats && stats.bizs.some(biz => biz.name === name);
  const target = isThere ? [bizLink(name), one.target.slice(name.length)] : one.target;
  const by = `by ${one.who}${one.peer ? ' from ' + one.peer : ''}`;
  const outcome = one.outcome ? `, outcome ${one.outcome}` : '';
  const back = button('Take back', pressed => takeBack(one, pressed), {
    class: 'small push',
    'aria-label': `Take back change ${one.id} of ${one.target}`,
  });
  return el(
    'li',
    { class: 'panel', 'data-change': one.id },
    el(
      'div',
      { class: 'row' },
      el('time', { datetime: one.time }, fullMoment(Date.parse(one.time))),
      el('strong', {}, WHAT[one.what] || one.what),
      el('span', {}, target),
      el('span', { class: 'soft' }, by + outcome),
      mayTakeBack(one) ? back : null,
    ),
    difference(oldOf(one), newOf(one)),
  );
}

/** What words left and what words came, in one line. */
function shortDifference(one) {
  const [before, after] = [oldOf(one), newOf(one)];
  if (one.what === 'degrade' || one.what === 'reload') {
    return [before, after].filter(text => text !== undefined).join(' → ');
  }
  const [old, now] = [before, after].map(text =>
    String(text ?? '')
      .split(/[\s<>]+|\/>/)
      .filter(Boolean),
  );
  const part = (words, others) => {
    const text = words.filter(word => !others.includes(word)).join(' ');
    return text.length > 60 ? text.slice(0, 60) + '…' : text;
  };
  const [left, came] = [part(old, now), part(now, old)];
  return left || came ? `${left || 'nothing'} → ${came || 'nothing'}` : '';
}

/** What lines left and what lines came. */
function difference(before, after) {
  if (before === undefined && after === undefined) return null;
  const [old, now] = [before, after].map(text => (text ? String(text).split('\n') : []));
  const line = (kind, mark, text) =>
    el(
      'span',
      { class: kind },
      el('span', { class: 'hide' }, kind === 'del' ? 'before: ' : 'after: '),
      `${mark} ${text.trim()}`,
    );
  return el(
    'pre',
    { class: 'diff' },
    old.filter(text => !now.includes(text)).map(text => line('del', '−', text)),
    now.filter(text => !old.includes(text)).map(text => line('ins', '+', text)),
  );
}

async function takeBack(one, pressed) {
  const told = `${one.target} becomes what it was before ${fullMoment(Date.parse(one.time))}.`;
  if (!(await confirmed('Take a change back', told, 'Take back'))) return;
  await act(pressed, `${one.target} is what it was.`, async () => {
    try {
      return await change('POST', `changes/${encodeURIComponent(one.id)}/undo`);
    } catch (error) {
      if (error.status === 409)
        throw new Error(`${one.target} has changed since: edit it instead.`);
      throw error;
    }
  });
}
