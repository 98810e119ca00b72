// Who asks: the clients of srv.xml, and what each was answered.

VIEWS.clients = () => {
  const clients = table(
    'Clients',
    [
      ['Client'],
      ['Items', 'num'],
      ['Refused', 'num'],
      ['Errors', 'num'],
      ['Share of items', 'num'],
    ],
    { id: 'clients' },
  );
  const none = el('p', { class: 'soft', id: 'no-clients' });
  const node = el(
    'div',
    {},
    heading('Clients'),
    el('p', { class: 'soft' }, 'Items since the start, by the client that asked.'),
    none,
    clients.node,
  );
  const show = () => {
    if (stats) showClients(stats.clients || [], clients);
  };
  return { name: 'clients', title: 'Clients', node, show };
};

function showClients(list, into) {
  into.node.hidden = !list.length;
  put($('no-clients'), list.length ? '' : 'This server does not tell clients apart.');
  const all = list.reduce((items, client) => items + client.items, 0);
  fill(
    into,
    list,
    client => client.name,
    client => [
      client.name + (client.removed ? ' (not in srv.xml)' : ''),
      count(client.items),
      count(client.refused),
      count(client.error),
      share(client.items, all),
    ],
  );
}
