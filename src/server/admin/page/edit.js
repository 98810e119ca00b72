// The dialog that adds and edits a business: a form for the usual settings beside the XML. The text
// is the truth: the form reads it and changes it in place.

// The settings of each policy, in the order of the form.
const POLICIES = named({
  interval: ['interval', 'max', 'debt', 'ban', 'on-exceed'],
  sliding: ['interval', 'max', 'ban', 'on-exceed'],
  'sliding-counter': ['interval', 'max', 'ban', 'on-exceed'],
  calendar: ['unit', 'max', 'tz', 'at', 'debt', 'history', 'ban', 'on-exceed'],
  token: ['rate', 'burst', 'ban', 'on-exceed'],
  gcra: ['rate', 'burst', 'per-call', 'most', 'max-period', 'ban', 'on-exceed'],
  total: ['max', 'ban', 'on-exceed'],
  count: ['unit', 'tz', 'at', 'history'],
  distinct: ['precision', 'max', 'unit', 'tz', 'at', 'history', 'ban', 'on-exceed'],
  concurrent: ['max', 'ban', 'on-exceed'],
});
const NEEDED = named({ interval: '60s', max: '10', unit: 'day', rate: '10/s' });
const HINTS = named({
  interval: '60s, 24h',
  max: 'uses',
  rate: '10/s',
  burst: 'as the rate',
  tz: 'UTC',
  at: '00:00',
  debt: 'none',
  ban: 'none, 10m',
  'on-exceed': 'refuse',
  history: 'none',
  'per-call': 'false',
  most: 'any',
  'max-period': '1d',
  precision: '12',
});
const CHOICES = named({
  unit: ['minute', 'hour', 'day', 'week', 'month', 'year'],
  scope: ['', 'biz'],
  mode: ['', 'shadow', 'off'],
  key: ['string', 'integer', 'ip', 'digest'],
});
const CHOICE_WORDS = named({
  scope: { '': 'each key', biz: 'all keys together' },
  mode: { '': 'enforce', shadow: 'shadow: refuse nothing', off: 'off: judge nothing' },
});
const LABELS = named({
  unit: 'window',
  tz: 'time zone',
  at: 'begins at',
  key: 'keys',
  scope: 'counts',
});

// `before` is the text that this one is to replace, and `theirs` what somebody else has put in its
// place; null: there is none.
const editing = { biz: null, before: null, theirs: null, turn: 0 };

async function editBiz(biz) {
  const from = view;
  try {
    const text = await textOf(biz.id);
    // Somebody may have gone on meanwhile.
    if (view !== from || $('edit').open) return;
    if (text === null) toast(`${biz.name} is not there any more.`);
    else openEditor(biz, text, 'Edit ' + biz.name);
  } catch (error) {
    if (view === from) toast(error.message);
  }
}
/** The text of a business; null: there is none. */
async function textOf(name) {
  const { status, body } = await askWithToken('biz/' + encodeURIComponent(name), 'application/xml');
  if (status === 404) return null;
  if (status !== 200) throw refusal(status, body);
  return body.trim();
}
/** Replaces the text of a business, unless somebody else has done so while the token was typed. */
async function changeText(biz, query, make) {
  const text = await textOf(biz.id);
  if (text === null) throw new Error(`${biz.name} is not there any more.`);
  const isSame = async () => (await textOf(biz.id)) === text;
  const status = await change('PUT', bizPath(biz) + query, make(text), isSame);
  if (status === null) throw new Error(`Somebody changed ${biz.name} meanwhile: look again.`);
  return status;
}
function addBiz() {
  const id = Math.max(0, ...stats.bizs.map(biz => biz.id || 0)) + 1;
  openEditor(
    null,
    `<biz id="${id}" name="" key="string">\n` +
      '  <limit policy="interval" interval="60s" max="10"/>\n</biz>',
    'Add a business',
  );
}
function openEditor(biz, text, title) {
  if ($('edit').open) return;
  Object.assign(editing, { biz, before: biz ? text : null, turn: editing.turn + 1 });
  put($('edit-title'), title);
  $('edit-text').value = text;
  $('edit-lift').checked = $('edit-grow').checked = $('edit-fresh').checked = false;
  $('edit-fresh-row').hidden = true;
  fault('');
  buildForm();
  $('edit').showModal();
  const first = biz ? $('limit-0-max') : $('biz-name');
  (first || $('edit-form').querySelector('select') || $('edit-text')).focus();
}

// The form.

function buildForm() {
  const found = bizTags($('edit-text').value);
  const form = $('edit-form');
  showLift();
  if (!found) {
    return form.replaceChildren(
      el('p', { class: 'soft' }, 'The text has no <biz> that the form can read.'),
    );
  }
  const isNew = !editing.biz;
  const hasRegister = found.tags.some(tag => tag.name === 'register');
  form.replaceChildren(
    el(
      'div',
      { class: 'fields' },
      isNew ? field('name', found.biz, -1) : null,
      isNew ? field('id', found.biz, -1) : null,
      field('key', found.biz, -1),
      groupField(found.biz),
      hasRegister ? null : field('mode', found.biz, -1),
    ),
    ...found.limits.map((tag, nth) => limitFields(tag, nth, found.limits.length)),
    hasRegister ? null : button('Add a limit', () => addLimit(), { id: 'add-limit' }),
    el(
      'p',
      { class: 'soft' },
      hasRegister
        ? 'The register is in the XML.'
        : 'Lists, weights, sharing, holds and retries are in the XML.',
    ),
  );
}

function limitFields(tag, nth, all) {
  const policy = tag.attributes.get('policy')?.value;
  const names = POLICIES[policy] || [];
  const remove =
    all > 1
      ? button('Remove', () => removeLimit(nth), {
          class: 'small push',
          'aria-label': `Remove limit ${nth + 1}`,
        })
      : null;
  return el(
    'fieldset',
    { class: 'fields' },
    el('legend', {}, `Limit ${nth + 1}`),
    choice(
      'policy',
      Object.keys(POLICIES),
      policy,
      value => changePolicy(nth, value),
      `limit-${nth}-policy`,
    ),
    names.map(name => field(name, tag, nth)),
    field('scope', tag, nth),
    remove,
  );
}

/** One setting: of the business, or of its limit `nth`. */
function field(name, tag, nth) {
  const value = tag.attributes.get(name)?.value ?? '';
  const id = nth < 0 ? 'biz-' + name : `limit-${nth}-${name}`;
  const set = text => {
    const found = bizTags($('edit-text').value);
    const now = nth < 0 ? found.biz : found.limits[nth];
    setText(withAttribute($('edit-text').value, now, name, text.trim()));
  };
  if (CHOICES[name]) return choice(name, CHOICES[name], value, set, id);
  return labelled(
    name,
    el('input', {
      id,
      value,
      placeholder: HINTS[name],
      autocomplete: 'off',
      spellcheck: 'false',
      size: 9,
      oninput: event => set(event.target.value),
    }),
  );
}
function groupField(tag) {
  const groups = ((map && map.groups) || []).map((name, nth) => (nth ? name : ''));
  if (groups.length < 2) return null;
  const words = { '': map.groups[0] };
  const known = tag.attributes.get('group')?.value;
  return choice(
    'group',
    groups,
    known === map.groups[0] ? '' : (known ?? ''),
    text => {
      const found = bizTags($('edit-text').value);
      setText(withAttribute($('edit-text').value, found.biz, 'group', text));
    },
    'biz-group',
    words,
  );
}
function choice(name, values, value, set, id, words = CHOICE_WORDS[name] || {}) {
  const all = values.includes(value) ? values : [value, ...values];
  const select = el(
    'select',
    { id, onchange: event => set(event.target.value) },
    all.map(one => el('option', { value: one ?? '' }, words[one] || one || '–')),
  );
  select.value = value ?? '';
  return labelled(name, select);
}
const labelled = (name, input) =>
  el('label', { class: 'field' }, el('span', {}, LABELS[name] || name), input);

/** Changes the text from the form, which stays as it is: the focus is in it. */
function setText(text) {
  $('edit-text').value = text;
  showLift();
}
/** Changes the text and the form. */
function rebuild(text, focus) {
  $('edit-text').value = text;
  buildForm();
  const next = $(focus);
  if (next) next.focus();
}

function changePolicy(nth, policy) {
  let text = $('edit-text').value;
  const limit = () => bizTags(text).limits[nth];
  const known = [...new Set(Object.values(POLICIES).flat())];
  for (const name of known.filter(name => !POLICIES[policy].includes(name))) {
    text = withAttribute(text, limit(), name, '');
  }
  text = withAttribute(text, limit(), 'policy', policy);
  const needed = policy === 'count' || policy === 'distinct' ? [] : POLICIES[policy];
  for (const name of needed.filter(name => NEEDED[name] && !limit().attributes.has(name))) {
    text = withAttribute(text, limit(), name, NEEDED[name]);
  }
  rebuild(text, `limit-${nth}-policy`);
}
function addLimit() {
  const text = $('edit-text').value;
  const { tags, biz, limits } = bizTags(text);
  const made = '<limit policy="interval" interval="60s" max="10"/>';
  const last = limits.at(-1);
  const at = last ? xmlEnd(tags, last) : biz.to;
  const indent = last ? text.slice(0, last.from).match(/[ \t]*$/)[0] : '  ';
  if (biz.closed) return toast('Write <biz …></biz> first.');
  rebuild(
    `${text.slice(0, at)}\n${indent}${made}${text.slice(at)}`,
    `limit-${limits.length}-policy`,
  );
}
function removeLimit(nth) {
  const text = $('edit-text').value;
  const { tags, limits } = bizTags(text);
  const from = text.slice(0, limits[nth].from).trimEnd().length;
  rebuild(text.slice(0, from) + text.slice(xmlEnd(tags, limits[nth])), 'limit-0-policy');
}
$('edit-text').addEventListener('input', buildForm);

// Saving.

/** Whether a limit that is there before and after admits more than before. */
function isRaised(before, after) {
  const [old, now] = [before, after].map(text => bizTags(text)?.limits || []);
  return now.some(
    (limit, nth) =>
      old[nth] &&
      ['max', 'burst', 'rate', 'debt'].some(
        name =>
          parseFloat(limit.attributes.get(name)?.value) >
          parseFloat(old[nth].attributes.get(name)?.value),
      ),
  );
}
function showLift() {
  const bans = text => (bizTags(text)?.limits || []).some(limit => limit.attributes.has('ban'));
  const text = $('edit-text').value;
  const mayBan = editing.biz && (bans(editing.before || '') || bans(text));
  $('edit-lift-row').hidden = !mayBan;
  if (!mayBan) $('edit-lift').checked = false;
  put(
    $('edit-lift-words'),
    isRaised(editing.before || '', text)
      ? 'A limit is raised. Lift the bans that it has caused, too.'
      : 'Lift the bans of this business.',
  );
}

$('edit-save').onclick = async () => {
  const text = $('edit-text').value;
  const found = bizTags(text);
  const name = editing.biz ? editing.biz.id : found?.biz.attributes.get('id')?.value;
  if (!name) return fault('Give the business a name and an id first.');
  const more = [
    ['grow', $('edit-grow')],
    ['lift-bans', $('edit-lift')],
    ['fresh', $('edit-fresh')],
  ]
    .filter(([, box]) => box.checked)
    .map(([what]) => what + '=true')
    .join('&');
  const { biz, turn } = editing;
  // Another editor may be open when an answer comes, or none.
  const isHere = () => $('edit').open && editing.turn === turn;
  $('edit-save').disabled = true;
  fault('');
  try {
    const path = `biz/${encodeURIComponent(name)}${more ? '?' + more : ''}`;
    const status = await change('PUT', path, text, async () => {
      const now = await textOf(name);
      return isHere() && isStillThat(name, now);
    });
    if (status === null) return;
    const shown = found?.biz.attributes.get('name')?.value || biz?.name || name;
    if (isHere()) $('edit').close();
    const lags = 'In force, except in a process that lags behind.';
    toast(status === 202 ? lags : `${shown}: in force.`);
    if (!biz) location.hash = hrefOf('biz', shown);
  } catch (error) {
    const anew = error.status === 409 && error.message.includes('?fresh=true');
    if (!isHere()) return toast(error.message);
    if (anew) $('edit-fresh-row').hidden = false;
    fault(error.message, error.status === 409 && !anew ? 'reload' : '');
  } finally {
    $('edit-save').disabled = false;
    focusSave();
  }
};
/** A button that is gone or cannot be pressed has lost the focus. */
function focusSave() {
  const at = document.activeElement;
  if ($('edit').open && (at === document.body || at.hidden)) $('edit-save').focus();
}

/** Whether what the text is to replace is what is there now; if not, says so. */
function isStillThat(name, now) {
  if (now === editing.before) return true;
  if (!editing.biz) {
    fault(`Another business has the id ${name}. Choose one that is free.`);
    return false;
  }
  editing.theirs = now;
  if (now === null) fault('Meanwhile it was removed.', 'over');
  else fault(`Meanwhile somebody changed it. The text in force is now\n${now}`, 'theirs');
  return false;
}
/** Goes on from the text that is in force now. */
function takeTheirs(text) {
  editing.before = editing.theirs;
  fault('');
  rebuild(text, 'edit-text');
}
$('edit-theirs').onclick = () => takeTheirs(editing.theirs);
$('edit-over').onclick = () => {
  takeTheirs($('edit-text').value);
  $('edit-save').focus();
  $('edit-save').click();
};
$('edit-reload').onclick = async () => {
  const { biz, turn } = editing;
  try {
    await change('POST', 'reload');
    if (editing.turn !== turn) return;
    fault('');
    if (biz) isStillThat(biz.id, await textOf(biz.id));
  } catch (error) {
    fault(error.message, error.status === 409 ? 'reload' : '');
  } finally {
    focusSave();
  }
};
$('edit-close').onclick = () => $('edit').close();

/** Says what is wrong, and offers what helps: 'reload', 'theirs' and 'over', or 'over'. */
function fault(told, help) {
  put($('edit-fault'), told);
  $('edit-fault').hidden = !told;
  $('edit-reload').hidden = help !== 'reload';
  $('edit-theirs').hidden = help !== 'theirs';
  $('edit-over').hidden = help !== 'theirs' && help !== 'over';
}
