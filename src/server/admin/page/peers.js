// The machines that mirror records with this one: what each lacks, and how far its clock is.

VIEWS.peers = () => {
  const peers = table(
    'Peers',
    [['Peer'], ['State'], ['Behind', 'num'], ['Records behind', 'num'], ['Clock', 'num']],
    { id: 'peers' },
  );
  const records = el(
    'div',
    { class: 'tiles' },
    tile('mirror-sent', 'Sent', 'records that peers have'),
    tile('mirror-again', 'Sent again', 'a peer was busy'),
    tile('mirror-outdated', 'Outdated', 'a peer had a later one'),
    tile('mirror-installed', 'Taken in', 'copies'),
    tile('mirror-full', 'Without room', 'copies'),
    tile('mirror-overruns', 'Overruns', 'all was compared'),
  );
  const note = el('p', { class: 'soft', id: 'mirror-note' });
  const node = el(
    'div',
    {},
    heading('Peers'),
    el('p', { class: 'soft' }, 'Machines that have copies of this machine’s records.'),
    note,
    peers.node,
    section('Records since the start', {}, records),
  );
  const show = () => {
    if (stats) showPeers(stats.peers, peers);
  };
  return { name: 'peers', title: 'Peers', node, show };
};

const seconds = ms => (ms / 1000).toFixed(3) + ' s';
const signed = ms => (ms > 0 ? '+' : '') + seconds(ms);

function peerCells(one) {
  const state = one.up ? (one.compared ? 'up' : 'up, compares') : 'down';
  return [
    one.address,
    state,
    one.up ? seconds(one.lag) : '–',
    one.up ? count(one['lag-records']) : '–',
    one.skew === undefined ? '–' : signed(one.skew),
  ];
}

function mirrorNote(peers) {
  if (!peers) return 'This server mirrors no records.';
  if (!peers.courier) return 'The courier is not there.';
  return peers.learning ? 'This machine learns: the first use of a key asks the peers.' : '';
}

function showPeers(peers, shown) {
  shown.node.hidden = !peers;
  put($('mirror-note'), mirrorNote(peers));
  if (!peers) return;
  for (const name of ['sent', 'again', 'outdated', 'installed', 'full'])
    put($('mirror-' + name), count(peers.records[name]));
  put($('mirror-overruns'), count(peers.overruns));
  fill(shown, peers.machines, one => one.address, peerCells);
  peers.machines.forEach((one, nth) => {
    const row = shown.body.children[nth];
    if (row) row.children[1].className = one.up ? 'up' : 'down';
  });
}
