// What a server answers that keeps a history, counts refused keys and logs changes. It runs before
// the page and wraps `fetch`: everything else goes to the server of the test. A test that starts
// such a server leaves this file out.
'use strict';
{
  const real = window.fetch;
  const document_ = (body, status = 200) =>
    new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
  const fault = (status, message) => document_({ error: { code: 'conflict', message } }, status);
  window.stub = {
    calls: [],
    // `three` was refused in the last minute, and by the minute in the last ten.
    refusedFor: { 1: 60000, 60: 600000 },
    changes: Array.from({ length: 60 }, (_, nth) => {
      const id = 60 - nth;
      const text = max => `<biz id="2" name="three" key="string">\n  <limit max="${max}"/>\n</biz>`;
      const of = id === 59 ? { what: 'reload' } :
        { what: 'biz', target: 'three', old: text(id), new: text(id + 1) };
      return { id, time: new Date(Date.now() - 30000 * (nth + 1)).toISOString(), who: 'alice',
        peer: '127.0.0.1:50000', ...of };
    }),
  };

  const rows = (now, seconds) => {
    const step = seconds <= 300 ? 1 : 60;
    const list = [];
    const first = now - seconds * 1000;
    for (let time = first - (first % (step * 1000)); time <= now; time += step * 1000) {
      const limited = now - time < window.stub.refusedFor[step] ? 5 * step : 0;
      list.push({ time, requests: 10 * step + limited, allowed: 10 * step, limited, errors: 0,
        'p50-us': 40, 'p99-us': 300, biz: { three: { allowed: step, limited, 'p99-us': 250 },
          plenty: { allowed: 9 * step, limited: 0, 'p99-us': 310 } } });
    }
    return { 'step-s': step, rows: list };
  };

  const answers = {
    async '/stats'(url, options) {
      const answer = await real('stats', options);
      const body = await answer.json();
      for (const biz of body.bizs) {
        biz.refusals = biz.limits.map(() => biz.updates.limited + biz.updates.banned);
      }
      const [, number, unit] = /^(\d+)([smh])$/.exec(url.searchParams.get('since'));
      body.history = rows(body.server.now, number * { s: 1, m: 60, h: 3600 }[unit]);
      return document_(body, answer.status);
    },
    '/top'(url) {
      const biz = url.searchParams.get('biz') ? undefined : 'three';
      const last = Date.now() - 2000;
      return document_({ top: { nodes: [
        { biz, key: '<img src onerror=h=1>\u202e', refused: 1200, error: 0, last },
        { biz, key: url.searchParams.get('window') === '1h' ? 'of an hour' : 'mallory', refused: 90,
          error: 3, last },
      ] } });
    },
    '/changes'(url) {
      const before = Number(url.searchParams.get('before') || Infinity);
      const found = window.stub.changes.filter(one => one.id < before);
      return document_({ changes: { changes: found.slice(0, Number(url.searchParams.get('n'))) } });
    },
  };

  window.fetch = async (path, options = {}) => {
    const url = new URL(path, location.href);
    const method = options.method || 'GET';
    window.stub.calls.push(`${method} ${url.pathname}${url.search}`);
    if (method === 'GET' && url.pathname === '/stats' && url.searchParams.has('since')) {
      return answers['/stats'](url, options);
    }
    if (method === 'GET' && url.pathname === '/top' && url.searchParams.get('by') === 'refused') {
      return answers['/top'](url);
    }
    if (method === 'GET' && url.pathname === '/changes') return answers['/changes'](url);
    const undo = /^\/changes\/(\d+)\/undo$/.exec(url.pathname);
    if (method === 'POST' && undo) {
      // The newest change can be taken back, and any other has changed since.
      if (Number(undo[1]) !== 60) return fault(409, 'three is not what this change made of it');
      return document_({ done: { generation: 2 } });
    }
    if (method === 'PUT' && url.searchParams.has('lift-bans')) {
      return real(path.replace('?lift-bans=true', ''), options);
    }
    return real(path, options);
  };
}
