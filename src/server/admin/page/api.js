// Requests to the admin plane, and the token for them.

const PATIENCE_MS = 5000; // What takes longer has failed.
let token = ''; // Never stored.
let guarded = false; // Reading needs a token, too.
let typed = null; // The answer to the question for the token, while it is open.

/** The status and the document of an answer. An error has a `status`: 0 without an answer. */
async function ask(path, accept, shown) {
  try {
    const headers = { Accept: accept || 'application/json' };
    if (shown) headers.Authorization = 'Bearer ' + shown;
    const answer = await fetch(path, {
      headers,
      cache: 'no-store',
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    return { status: answer.status, body: accept ? await answer.text() : await answer.json() };
  } catch (error) {
    throw Object.assign(new Error(error.message), { status: 0 });
  }
}
const refusal = (status, body) => Object.assign(new Error(words(status, body)), { status });

/** Where srv.xml has clients, reading needs a token, too: all requests wait for one question. */
async function askWithToken(path, accept) {
  const shown = guarded ? token : '';
  const answer = await ask(path, accept, shown);
  if (answer.status !== 401) return answer;
  guarded = true;
  if (token === shown) {
    const told = shown ? 'The token is wrong.' : 'This page needs a token.';
    typed ??= confirmed('Token', told, 'Go on', true).finally(() => { typed = null; });
    if (!(await typed)) return answer;
    token = $('ask-token').value.trim() || token;
    $('ask-token').value = '';
    $('forget').hidden = !token;
  }
  return ask(path, accept, token);
}

async function get(path, accept) {
  const { status, body } = await askWithToken(path, accept);
  if (status !== 200) throw refusal(status, body);
  return body;
}

/** What an older server may not have: null then. */
async function getIfThere(path) {
  const { status, body } = await askWithToken(path);
  if (status === 200) return body;
  if (status === 400 || status === 404 || status === 405) return null;
  throw refusal(status, body);
}

/** The list in a document: {"top": {"nodes": […]}}. One without elements is left out. */
function listIn(body, root, name) {
  const within = body[root];
  const list = Array.isArray(within) ? within : (within || body)[name];
  return Array.isArray(list) ? list : [];
}

function words(status, body) {
  try {
    const { error } = typeof body === 'string' ? JSON.parse(body) : body;
    return (error.line ? `line ${error.line}, column ${error.column}: ` : '') + error.message;
  } catch {
    return `the server answered ${status}`;
  }
}

/**
 * Makes a change, and asks for the token where it is wanted; its error has `status` and words.
 * `check` is asked before each attempt, as typing a token takes its time. Null: it said no.
 */
async function change(method, path, body, check) {
  const first = 'This change needs the token.';
  for (let told = first; ; told = 'The token is wrong.') {
    const headers = { Accept: 'application/json' };
    if (token) headers.Authorization = 'Bearer ' + token;
    if (body !== undefined) headers['Content-Type'] = 'application/xml';
    if (check && !(await isAllowed(check))) return null;
    let answer, text;
    try {
      answer = await fetch(path, { method, headers, body, cache: 'no-store' });
      text = await answer.text();
    } catch {
      throw new Error('The keeper does not answer: it is unknown whether the change was made.');
    }
    if (answer.ok) {
      changed();
      return answer.status;
    }
    if (answer.status !== 401) {
      // A token that may only look is kept, too, until it is forgotten.
      $('forget').hidden = !token;
      throw refusal(answer.status, text);
    }
    if (!token && told !== first) throw new Error('Nothing was changed.');
    token = '';
    if (!(await confirmed('Token', told, 'Go on', true))) throw new Error('Nothing was changed.');
    token = $('ask-token').value.trim();
    $('ask-token').value = '';
  }
}

async function isAllowed(check) {
  try {
    return await check();
  } catch (error) {
    if (error.status !== 0) throw error;
    throw new Error('The keeper does not answer: nothing was changed.');
  }
}

function changed() {
  $('forget').hidden = !token;
  hurry('changes', 'biz-used');
  look();
}

const bizPath = biz => 'biz/' + encodeURIComponent(biz.id);
const nodePath = (biz, key) =>
  `node?biz=${encodeURIComponent(biz.id)}&key=${encodeURIComponent(key)}`;
