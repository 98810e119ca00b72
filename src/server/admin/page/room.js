// Groups: how full they are, how long their chains, and what was evicted.

VIEWS.room = () => {
  const list = el('div', { class: 'cards', id: 'groups' });
  const node = el('div', {}, heading('Room'), list);
  const show = () => {
    if (stats) sync(list, stats.groups, group => group.name, makeGroup, showGroup);
  };
  return { name: 'room', title: 'Room', node, show };
};

function makeGroup(group) {
  const full = bar([
    ['allowed', 0],
    ['expired', 0],
    ['free', 0],
  ]);
  const chains = chainChart();
  const figures = el('dl', { class: 'figures' });
  const of = name => el('p', { class: 'soft', 'data-of': name });
  const card = el(
    'section',
    { class: 'panel', 'data-group': group.name, 'aria-label': 'Group ' + group.name },
    el('h2', {}, group.name),
    of('geometry'),
    el('p', { 'data-of': 'nodes' }),
    full.node,
    figures,
    el('h3', {}, 'Key-nodes by the length of their chains'),
    chains.node,
    of('dropped'),
  );
  return Object.assign(card, { full, chains, figures });
}

function showGroup(card, group) {
  const of = name => card.querySelector(`[data-of="${name}"]`);
  put(
    of('geometry'),
    group.files === undefined
      ? 'no longer in map.xml'
      : `${group.moving ? 'moves to ' : ''}${group.files} × ` +
          `${count(group['key-nodes'])} key-nodes, ` +
          `chains of ${group.chain}, nodes of ${group['node-size']} bytes: ${bytes(group.bytes)}` +
          (group.served === false ? '; not served' : ''),
  );
  const places = placesOf(group);
  card.full.node.hidden = card.chains.node.hidden = !places;
  put(
    of('nodes'),
    places
      ? `${share(group.live, places)} in use: ${count(group.live)} live, ` +
          `${count(group.expired)} expired, ${count(group.free)} free, ` +
          `counted ${agoWords(group.looked)}`
      : 'not counted yet',
  );
  if (places) {
    card.full.show(
      [group.live, group.expired, group.free],
      `${share(group.live, places)} of the places are in use`,
    );
    card.chains.show(group);
  }
  const dropped = sum(group, ['dropped-crc', 'dropped-misplaced', 'dropped-duplicate']);
  put(
    of('dropped'),
    dropped
      ? `dropped: ${count(group['dropped-crc'])} torn, ` +
          `${count(group['dropped-misplaced'])} misplaced, ` +
          `${count(group['dropped-duplicate'])} duplicate`
      : '',
  );
  definitions(card.figures, [
    ['Evicted that limited', evictedWords(group)],
    ['Evicted idle', count(group['evictions-idle'])],
    ['Evicted expired', count(group['evictions-expired'])],
    ['Created', count(group.creates)],
    ...(group.checkpoint ? [['Checkpoint', agoWords(group.checkpoint)]] : []),
  ]);
}

/** Names and values. */
function definitions(into, list) {
  sync(
    into,
    list,
    ([name]) => name,
    ([name]) => el('div', {}, el('dt', {}, name), el('dd', {})),
    (pair, [, value]) => put(pair.lastChild, value),
  );
}

const POWERS = Array.from({ length: 11 }, (_, nth) => 10 ** nth);

/** Bars, drawn logarithmically: a few full chains must be seen beside thousands of short ones. */
function chainChart() {
  const canvas = el('div', { class: 'plot low', role: 'img', 'aria-label': 'Chains by length' });
  const told = el('p', { class: 'soft' });
  const made = {
    node: el('figure', { class: 'chart' }, canvas, told),
    plot: null,
    data: null,
    canvas,
  };
  made.sized = new ResizeObserver(() => {
    if (made.plot) made.plot.setSize({ width: canvas.clientWidth, height: canvas.clientHeight });
    else if (made.data) buildChains(made);
  });
  made.sized.observe(canvas);
  made.rebuild = () => buildChains(made);
  charts.add(made);
  made.show = group => showChains(made, told, group);
  return made;
}

function showChains(made, told, group) {
  const chains = group.chains.slice(0, (group.chain || group.chains.length - 1) + 1);
  const data = [chains.map((_, length) => length), chains.map(number => number || null)];
  const longest = chains.findLastIndex(number => number > 0);
  const full = (group.chain && chains[group.chain]) || 0;
  put(
    told,
    `longest ${longest} of ${chains.length - 1}; ${plural(full, 'chain is', 'chains are')} full`,
  );
  made.canvas.setAttribute(
    'aria-label',
    'Chains by length: ' +
      chains
        .map((number, length) => [number, length])
        .filter(([number]) => number)
        .map(([number, length]) => `${count(number)} of ${length}`)
        .join(', '),
  );
  if (JSON.stringify(data) === JSON.stringify(made.data)) return;
  made.data = data;
  if (made.plot) made.plot.setData(data);
  else buildChains(made);
}

function buildChains(made) {
  if (made.plot) made.plot.destroy();
  made.plot = null;
  const { width } = made.canvas.getBoundingClientRect();
  if (width < 40) return;
  const axis = {
    stroke: color('--soft'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  made.plot = new uPlot(
    {
      width,
      height: made.canvas.clientHeight,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false },
      scales: {
        x: { time: false, range: (plot, least, most) => [-0.7, most + 0.7] },
        y: { distr: 3, range: (plot, least, most) => [0.5, Math.max(10, most * 1.5)] },
      },
      axes: [
        { ...axis, size: 24, grid: { show: false }, incrs: [1, 2, 4, 8, 14] },
        {
          ...axis,
          size: 44,
          splits: (plot, nth, least, most) => POWERS.filter(power => power <= most),
          values: (plot, ticks) => ticks.map(short),
        },
      ],
      series: [
        {},
        {
          stroke: color('--allowed'),
          fill: color('--allowed') + '99',
          width: 1,
          paths: uPlot.paths.bars({ size: [0.8, 40] }),
          points: { show: false },
        },
      ],
    },
    made.data,
    made.canvas,
  );
}
