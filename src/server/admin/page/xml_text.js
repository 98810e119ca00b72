// The text of a <biz> as text: attributes are changed where they stand, and everything else of it,
// comments included, stays byte for byte.

const XML_TOKEN = new RegExp(
  '<!--[^]*?-->|<!\\[CDATA\\[[^]*?\\]\\]>|<\\?[^]*?\\?>|' +
    '<(/?)([A-Za-z][\\w-]*)((?:[^>"\']|"[^"]*"|\'[^\']*\')*)>',
  'g',
);
const XML_ATTRIBUTE = /([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g;

/** The tags of a text: {name, from, to, ends, closed, attributes}, where `ends` is `</name>`. */
function xmlTags(text) {
  return [...text.matchAll(XML_TOKEN)]
    .filter(found => found[2])
    .map(found => {
      const attributes = new Map();
      const from = found.index;
      const start = from + 1 + found[1].length + found[2].length;
      for (const one of found[3].matchAll(XML_ATTRIBUTE)) {
        const raw = one[2] ?? one[3];
        const to = start + one.index + one[0].length - 1;
        attributes.set(one[1], {
          value: plain(raw),
          from: to - raw.length,
          to,
          begins: start + one.index,
        });
      }
      return {
        name: found[2],
        from,
        to: from + found[0].length,
        ends: found[1] === '/',
        closed: found[3].endsWith('/'),
        attributes,
      };
    });
}

/** Where an element ends: behind its tag, or behind the tag that ends it. */
function xmlEnd(tags, tag) {
  if (tag.closed) return tag.to;
  const end = tags.find(one => one.ends && one.name === tag.name && one.from >= tag.to);
  return end ? end.to : tag.to;
}

/** The text with another value of an attribute; an empty one is removed. */
function withAttribute(text, tag, name, value) {
  const known = tag.attributes.get(name);
  if (known && value === '') {
    const begins = text.slice(0, known.begins).trimEnd().length;
    return text.slice(0, begins) + text.slice(known.to + 1);
  }
  if (known) {
    const quoted = `"${escaped(value)}"`;
    return text.slice(0, known.from - 1) + quoted + text.slice(known.to + 1);
  }
  if (value === '') return text;
  const last = [...tag.attributes.values()].at(-1);
  const at = last ? last.to + 1 : tag.from + 1 + tag.name.length;
  return `${text.slice(0, at)} ${name}="${escaped(value)}"${text.slice(at)}`;
}

const escaped = text =>
  text.replace(/[&<"]/g, one => ({ '&': '&amp;', '<': '&lt;', '"': '&quot;' })[one]);
const plain = text =>
  text.replace(/&(?:(lt|gt|amp|quot|apos)|#(\d+)|#x([\da-f]+));/gi, (all, name, ten, hex) =>
    name
      ? { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }[name]
      : String.fromCodePoint(Math.min(0x10ffff, ten ? Number(ten) : parseInt(hex, 16))),
  );

/** The start tags of a <biz> and its limits, or null if the text has none. */
function bizTags(text) {
  const tags = xmlTags(text);
  const starts = tags.filter(tag => !tag.ends);
  const biz = starts.find(tag => tag.name === 'biz');
  return biz ? { tags, biz, limits: starts.filter(tag => tag.name === 'limit') } : null;
}

/** The same element in another mode. */
function withMode(text, mode) {
  const found = bizTags(text);
  if (!found) throw new Error('The business cannot be read.');
  return withAttribute(text, found.biz, 'mode', mode === 'enforce' ? '' : mode);
}
