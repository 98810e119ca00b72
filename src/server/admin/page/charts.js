// Charts over time, drawn by uPlot. A line above each says its values at the pointer, or now; the
// arrow keys move through them, and a screen reader reads them out.

const charts = new Set(); // Those of the view that is shown.
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PAD = 1.12;
const TIME_STEPS = [1, 2, 5, 15, 30, 60, 180, 360].map(minutes => 60 * minutes);

/**
 * A chart with these series: [{name, color, dash, value(row)}]. `format` is for values, `axis` for
 * the y-axis.
 */
function chart({ label, series, format, axis, empty }) {
  const at = el('span', { class: 'at' });
  const values = series.map(() => el('b'));
  const legend = series.map((one, nth) =>
    el('span', {}, el('i', { class: 'swatch ' + one.color }), one.name + ' ', values[nth]),
  );
  const canvas = el('div', {
    class: 'plot',
    tabindex: 0,
    role: 'slider',
    'aria-label': label,
    'aria-orientation': 'horizontal',
  });
  const none = el('p', { class: 'soft none' });
  const node = el(
    'figure',
    { class: 'chart' },
    el(
      'figcaption',
      { class: 'row' },
      el('strong', {}, label),
      el('span', { class: 'readout row' }, legend, at),
    ),
    canvas,
    none,
  );
  const made = {
    node,
    label,
    series,
    format,
    axis,
    empty,
    at,
    values,
    canvas,
    none,
    plot: null,
    data: null,
    marks: [],
    rebuild: () => build(made),
  };
  canvas.addEventListener('keydown', event => step(made, event));
  canvas.addEventListener('blur', () => point(made, null));
  made.sized = new ResizeObserver(() => resize(made));
  made.sized.observe(canvas);
  charts.add(made);
  return made;
}

/** Ends the charts of a view that is left. */
function endCharts() {
  for (const one of charts) {
    one.sized.disconnect();
    if (one.plot) one.plot.destroy();
  }
  charts.clear();
}

/** Columns of the rows: a gap where rows are missing. */
function columns({ rows, step }, series) {
  const data = [[], ...series.map(() => [])];
  let before = null;
  for (const row of rows) {
    if (before !== null && row.time - before > 3500 * step) {
      data[0].push((before + step * 1000) / 1000);
      for (const column of data.slice(1)) column.push(null);
    }
    data[0].push(row.time / 1000);
    series.forEach((one, nth) => data[nth + 1].push(one.value(row) ?? null));
    before = row.time;
  }
  return data;
}

/** Draws the rows of the range, and a mark where something was changed. */
function draw(made, range, marks) {
  made.range = range;
  made.marks = marks;
  made.data = columns(range, made.series);
  const has = made.data.slice(1).some(column => column.some(value => value !== null));
  made.canvas.hidden = !has;
  const why = made.empty && range.rows.length ? made.empty() : 'No figures of this time yet.';
  put(made.none, has ? '' : why);
  if (!has) return point(made, null);
  if (made.plot) made.plot.setData(made.data);
  else build(made);
  point(made, made.plot ? made.plot.cursor.idx : null);
}

function build(made) {
  const { width } = made.canvas.getBoundingClientRect();
  if (width < 40 || !made.data) return;
  const axis = {
    stroke: color('--soft'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line'), width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
  };
  made.plot = new uPlot(
    {
      width,
      height: made.canvas.clientHeight,
      legend: { show: false },
      cursor: { sync: { key: 'time' }, drag: { x: false, y: false }, y: false },
      scales: {
        x: { range: () => [made.range.from / 1000, made.range.to / 1000] },
        y: { range: (plot, least, most) => [0, most > 0 ? most * PAD : 1] },
      },
      axes: [
        {
          ...axis,
          size: 24,
          space: 50,
          incrs: TIME_STEPS,
          values: (plot, times) => times.map(at => clock(at * 1000).slice(0, 5)),
        },
        { ...axis, size: 54, space: 28, values: (plot, ticks) => ticks.map(made.axis) },
      ],
      series: [
        {},
        ...made.series.map(one => ({
          stroke: color('--' + one.color),
          width: 1.5,
          dash: one.dash,
          fill: one.fill && color('--' + one.color) + '22',
          points: { show: false },
        })),
      ],
      hooks: {
        setCursor: [plot => point(made, plot.cursor.idx)],
        draw: [plot => mark(made, plot)],
      },
    },
    made.data,
    made.canvas,
  );
}

/** Lines where something was changed. */
function mark(made, plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = color('--text');
  ctx.setLineDash([2, 3]);
  for (const { time } of made.marks) {
    if (time < made.range.from || time > made.range.to) continue;
    const x = Math.round(plot.valToPos(time / 1000, 'x', true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Shows the values at a place; null: those of now. */
function point(made, nth) {
  const data = made.data;
  const last = data ? data[0].length - 1 : -1;
  const there = nth !== null && nth !== undefined && nth <= last;
  const idx = there ? nth : last;
  const told = made.series.map((one, at) =>
    idx < 0 || data[at + 1][idx] === null ? '–' : made.format(data[at + 1][idx]),
  );
  told.forEach((value, at) => put(made.values[at], value));
  if (idx < 0) return;
  const time = data[0][idx] * 1000;
  const step = made.range.step * 1000;
  const near = made.marks.find(one => Math.abs(one.time - time) <= step);
  const when = there ? clock(time) : made.range.step === 1 ? 'now' : 'last minute';
  put(made.at, when + (there && near ? ` · ${near.words}` : ''));
  made.canvas.setAttribute('aria-valuemin', 0);
  made.canvas.setAttribute('aria-valuemax', Math.max(0, last));
  made.canvas.setAttribute('aria-valuenow', idx);
  // While it is in use and follows the time, it would be read out each second.
  if (!there && document.activeElement === made.canvas) return;
  made.canvas.setAttribute(
    'aria-valuetext',
    `${when}: ` +
      made.series.map((one, at) => `${one.name} ${told[at]}`).join(', ') +
      (there && near ? `; ${near.words}` : ''),
  );
}

function step(made, event) {
  const plot = made.plot;
  const last = made.data ? made.data[0].length - 1 : -1;
  const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: 30, PageDown: -30, Home: -1e9, End: 1e9 }[
    event.key
  ];
  if (!plot || last < 0 || by === undefined) return;
  event.preventDefault();
  const from = plot.cursor.idx ?? last;
  const to = Math.min(last, Math.max(0, from + by));
  const left = plot.valToPos(made.data[0][to], 'x');
  plot.setCursor({ left, top: plot.over.clientHeight / 2 });
  point(made, to);
}

function resize(made) {
  const { width } = made.canvas.getBoundingClientRect();
  if (!made.plot) {
    if (made.data && !made.canvas.hidden) build(made);
    return;
  }
  if (width >= 40) made.plot.setSize({ width, height: made.canvas.clientHeight });
}

// The colors of the other scheme.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const one of charts) {
    if (!one.plot) continue;
    one.plot.destroy();
    one.plot = null;
    one.rebuild();
  }
});

// The charts that views share.

const perSecond = name => row => row[name] / row.seconds;
const itemsChart = () =>
  chart({
    label: 'Allowed a second',
    format: rate,
    axis: short,
    series: [{ name: 'allowed', color: 'allowed', fill: true, value: perSecond('allowed') }],
  });
const refusedChart = () =>
  chart({
    label: 'Refused a second',
    format: rate,
    axis: short,
    series: [
      { name: 'refused', color: 'refused', fill: true, value: perSecond('limited') },
      { name: 'errors', color: 'error', dash: [4, 3], value: perSecond('errors') },
    ],
  });
const latencyOf = (label, series) =>
  chart({
    label,
    format: micros,
    axis: micros,
    series,
    empty: () =>
      past.served !== false
        ? 'No request in this time.'
        : past.denied === 503
          ? 'The history of latency cannot be read now.'
          : 'Not available: this server keeps no history of latency.',
  });
const latencyChart = () =>
  latencyOf('Latency', [
    { name: 'p50', color: 'soft', value: row => row['p50-us'] },
    { name: 'p99', color: 'allowed', value: row => row['p99-us'] },
  ]);
const ofBiz = (name, field) => row => {
  const one = bizIn(row, name);
  return one && one[field] / row.seconds;
};
// A row names the 256 busiest businesses.
const noneOfBiz = () => 'Not known: in this time it was counted together with others.';
const bizCharts = name => [
  chart({
    label: 'Refused a second',
    format: rate,
    axis: short,
    series: [{ name: 'refused', color: 'refused', fill: true, value: ofBiz(name, 'limited') }],
    empty: noneOfBiz,
  }),
  chart({
    label: 'Allowed a second',
    format: rate,
    axis: short,
    series: [{ name: 'allowed', color: 'allowed', fill: true, value: ofBiz(name, 'allowed') }],
    empty: noneOfBiz,
  }),
  latencyOf('Latency', [
    {
      name: 'p99',
      color: 'allowed',
      value: row => bizIn(row, name)?.['p99-us'],
    },
  ]),
];

/** The choice of a range, which all charts follow. */
const rangeChoice = () =>
  radios('range', 'Range', RANGES, past.range, minutes => {
    past.range = minutes;
    hurry('minutes');
    view.show();
    look();
  });

const marksOf = name =>
  (changes || [])
    .filter(one => !name || bizOf(one) === name)
    .map(one => ({
      time: Date.parse(one.time),
      words: `${one.what} ${one.target || ''} by ${one.who}`,
    }));
