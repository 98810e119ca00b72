// Processes, and what the whole server has counted since its start.

VIEWS.processes = () => {
  const processes = table(
    'Processes',
    [
      ['Process'],
      ['Restarts', 'num'],
      ['CPU', 'num'],
      ['CPU time', 'num'],
      ['Connections', 'num'],
      ['Requests/s', 'num'],
      ['Requests', 'num'],
      ['Generation', 'num'],
    ],
    { id: 'processes' },
  );
  const requests = table('Requests', [['Requests'], ['Status', 'num'], ['Count', 'num']], {
    id: 'requests',
  });
  const errors = table('Errors of items', [['Errors of items'], ['Count', 'num']], {
    id: 'errors',
  });
  const counters = table('Counters', [['Counter'], ['Count', 'num']], { id: 'counters' });
  const latency = el('div', { class: 'tiles', id: 'latency' });
  const node = el(
    'div',
    {},
    heading('Processes'),
    el('p', { class: 'soft', id: 'restarts' }),
    processes.node,
    section('Latency since the start', {}, latency),
    section(
      'Counted since the start',
      {},
      el('div', { class: 'three' }, requests.node, errors.node, counters.node),
    ),
  );
  const show = () => {
    if (!stats) return;
    const { server } = stats;
    fill(processes, stats.workers, worker => worker.pid + worker.role, processCells);
    put(
      $('restarts'),
      `Restarts: ${server['worker-restarts']} of workers, ` +
        `${server['keeper-restarts']} of the keeper` +
        `. Reloads: ${server['reloads-taken']} taken, ${server['reloads-refused']} refused.`,
    );
    fill(
      requests,
      stats.requests,
      one => one.command + one.status,
      one => [one.command, one.status, count(one.count)],
    );
    fill(
      errors,
      stats.errors,
      one => one.error,
      one => [one.error, count(one.count)],
    );
    fill(
      counters,
      Object.entries(stats.counters),
      ([name]) => name,
      ([name, number]) => [name.replaceAll('-', ' '), count(number)],
    );
    errors.node.hidden = !stats.errors.length;
    showLatency(latency);
  };
  return { name: 'processes', title: 'Processes', node, show };
};

const processCells = worker => [
  `${worker.role} ${worker.pid}`,
  worker.restarts === undefined ? '–' : count(worker.restarts),
  worker['cpu-share'] === undefined ? '–' : (100 * worker['cpu-share']).toFixed(0) + ' %',
  worker.cpu === undefined ? '–' : (worker.cpu / 1000).toFixed(1) + ' s',
  count(worker.connections),
  rate(worker['requests-per-second']),
  count(worker.requests),
  worker.generation,
];

function showLatency(into) {
  const { latency } = stats;
  const list = [
    ['p50', 'p50-us'],
    ['p90', 'p90-us'],
    ['p99', 'p99-us'],
    ['p99.9', 'p999-us'],
  ].map(([name, field]) => [name, micros(latency[field])]);
  list.push(['mean', micros(latency.count ? latency['sum-us'] / latency.count : undefined)]);
  sync(
    into,
    list,
    ([name]) => name,
    ([name]) => el('div', { class: 'tile' }, el('span', { class: 'soft' }, name), el('b')),
    (one, [, value]) => put(one.lastChild, value),
  );
}
