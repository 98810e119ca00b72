// Figures for people.

const count = number => (number === undefined ? '–' : Number(number).toLocaleString('en-US'));
const plural = (number, one, more) => `${count(number)} ${number === 1 ? one : more}`;
const share = (part, all) =>
  all > 0 ? ((100 * part) / all).toFixed(part > 0 && part / all < 0.1 ? 1 : 0) + ' %' : '–';
const clock = ms => new Date(ms).toLocaleTimeString('en-GB');

/** A figure a second. */
function rate(number) {
  if (number === undefined || number === null) return '–';
  if (number === 0) return '0';
  return number < 10 ? Number(number.toPrecision(2)).toString() : count(Math.round(number));
}

/** The same, short, for an axis. */
function short(number) {
  if (number === null) return '';
  for (const [size, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ]) {
    if (number >= size) return Number((number / size).toPrecision(3)) + unit;
  }
  return String(Number(number.toPrecision(3)));
}

function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min';
  return s < 172800 ? Math.floor(s / 3600) + ' h' : Math.floor(s / 86400) + ' d';
}

/** A moment: the time of a day, with the date if it is not today. */
function moment(ms) {
  const then = new Date(ms);
  const date = then.toLocaleDateString('en-CA');
  return (date === new Date().toLocaleDateString('en-CA') ? '' : date + ' ') + clock(ms);
}

/** A moment that others may read elsewhere: with its date and its zone. */
function fullMoment(ms) {
  const then = new Date(ms);
  const zone = then.toLocaleTimeString('en-GB', { timeZoneName: 'short' }).split(' ').pop();
  return `${then.toLocaleDateString('en-CA')} ${clock(ms)} ${zone}`;
}

function micros(us) {
  if (us === undefined || us === null) return '–';
  if (us < 1000) return Math.round(us) + ' µs';
  return Number((us < 1e6 ? us / 1000 : us / 1e6).toPrecision(3)) + (us < 1e6 ? ' ms' : ' s');
}

function bytes(number) {
  if (number === undefined) return '–';
  let unit = 0;
  while (number >= 1024 && unit < 4) {
    number /= 1024;
    unit++;
  }
  return (unit ? number.toPrecision(3) : number) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit];
}
