// Limits that machines share: what is answered here, what waits, and the nodes of the cluster.

VIEWS.cluster = () => {
  const nodes = table('Nodes of the cluster', [['Node'], ['State']], { id: 'nodes' });
  const tiles = el(
    'div',
    { class: 'tiles' },
    tile('shared-local', 'Answered here', ''),
    tile('waits-now', 'Waiting now', 'requests'),
    tile('waits-answered', 'Got a lease', 'items that waited'),
    tile('waits-missed', 'Waited in vain', 'no answer in time'),
    tile('waits-unreachable', 'Cut off', 'cluster not reached'),
    tile('lease-recalls', 'Recalls', 'of others’ uses'),
    tile('lease-returns', 'Given back', 'returns'),
  );
  const none = el('p', { class: 'soft', id: 'no-nodes' });
  const node = el(
    'div',
    {},
    heading('Cluster'),
    el('p', { class: 'soft' }, 'Limits that machines share.'),
    tiles,
    section('Nodes', {}, none, nodes.node),
  );
  const show = () => {
    if (stats) showCluster(stats.cluster, nodes);
  };
  return { name: 'cluster', title: 'Cluster', node, show };
};

const waited = ({ waits }) => waits.answered + waits.missed + waits.unreachable;
const sharedTotals = ({ cluster }) => cluster && { items: cluster.items, waited: waited(cluster) };

function showCluster(cluster, nodes) {
  nodes.node.hidden = !cluster || !cluster.nodes.length;
  if (!cluster) return put($('no-nodes'), 'This server shares no limits.');
  // Of the last minute, or of what this page has seen of it; else since the start.
  const first = past.recent.length && past.recent[0].cluster;
  const isRecent = first && cluster.items > first.items;
  const items = cluster.items - (isRecent ? first.items : 0);
  const asked = waited(cluster) - (isRecent ? first.waited : 0);
  put($('shared-local'), share(Math.max(0, items - asked), items));
  put($('shared-local-note'), isRecent ? 'of shared items ' + recentWords() : 'of shared items');
  put($('waits-now'), count(cluster.waits.now));
  for (const name of ['answered', 'missed', 'unreachable'])
    put($('waits-' + name), count(cluster.waits[name]));
  for (const name of ['recalls', 'returns']) put($('lease-' + name), count(cluster.leases[name]));
  put(
    $('no-nodes'),
    cluster.nodes.length
      ? ''
      : cluster.courier
        ? 'No node has answered yet.'
        : 'The courier is not there.',
  );
  fill(
    nodes,
    cluster.nodes,
    one => one.address,
    one => [one.address, one.up ? 'up' : 'down'],
  );
  cluster.nodes.forEach((one, nth) => {
    const row = nodes.body.children[nth];
    if (row) row.lastChild.className = one.up ? 'up' : 'down';
  });
}
