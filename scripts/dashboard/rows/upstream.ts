import { lines, states, type Row } from '../panels.js';
import { increase, own, quantiles, rate } from '../queries.js';

/** The state of a node as a number, for its colour. */
const nodeStates = [
  ['unknown', 'blue'],
  ['healthy', 'green'],
  ['failing', 'yellow'],
  ['set_aside', 'orange'],
  ['foreign', 'red'],
] as const;

const stateNumber = nodeStates
  .map(([state], index) => `${own('endpoint_state', `state="${state}"`)} * ${index + 1}`)
  .join(' or ');

export const sourcesRow: Row = {
  title: 'Sources',
  panels: [
    lines({
      title: 'Collections per second',
      text: 'Valid ones, by source: asked for by id (requester), or from execution data (edi).',
      unit: 'none',
      isStacked: true,
      queries: [[rate('collections_received_total', ['source']), '{{instance}} {{source}}']],
    }),
    lines({
      title: 'For nothing, per second',
      text: 'What was there already, calls that the other source overtook, and blocks of execution data that were durable. With both sources some of it is meant.',
      unit: 'none',
      queries: [
        [rate('duplicate_collections_total', ['source']), '{{instance}} duplicate from {{source}}'],
        [rate('collection_requests_cancelled_total'), '{{instance}} call cancelled'],
        [rate('execution_data_skipped_total'), '{{instance}} execution data skipped'],
      ],
    }),
    lines({
      title: 'Calls for collections per second',
      text: 'Sent, retries included; and heights whose calls were held back because execution data was about to bring them.',
      unit: 'none',
      queries: [
        [rate('collections_requested_total'), '{{instance}} calls'],
        [rate('collection_requests_held_back_total'), '{{instance}} heights held back'],
      ],
    }),
    lines({
      title: 'From asked to received',
      text: 'The side of the nodes: from the first call for a collection to its valid answer.',
      unit: 's',
      queries: quantiles('collection_request_to_receive_seconds'),
    }),
    lines({
      title: 'From received to durable',
      text: 'Our side: what a collection waits for its block, its neighbours and the commit.',
      unit: 's',
      queries: quantiles('collection_receive_to_indexed_seconds', ['source']),
    }),
    lines({
      title: 'Refused',
      text: 'Collections and blocks that were wrong. Should be empty: some node, or a proxy, sends wrong data.',
      limits: [null, 1],
      queries: [
        [increase('invalid_collections_total', ['source', 'reason']), '{{instance}} {{source}} {{reason}}'],
        [increase('invalid_blocks_total', ['reason']), '{{instance}} block {{reason}}'],
        [
          increase('quorum_certificates_total', [], 'result="invalid"'),
          '{{instance}} certificate of the consensus nodes',
        ],
      ],
    }),
    lines({
      title: 'Streams: since the last message',
      text: 'A stream that is silent while the head moves is opened again within seconds.',
      unit: 's',
      width: 12,
      limits: [null, 30],
      queries: [[own('stream_age_seconds'), '{{instance}} {{stream}}']],
    }),
    lines({
      title: 'Streams opened again',
      text: 'By reason. Now and then is usual; many times a minute is a node or a proxy that cuts them.',
      width: 12,
      queries: [
        [increase('stream_reopens_total', ['stream', 'reason']), '{{instance}} {{stream}} {{reason}}'],
      ],
    }),
  ],
};

export const nodesRow: Row = {
  title: 'Access nodes',
  panels: [
    states({
      title: 'State',
      text: 'Healthy is asked first, foreign never. A node that is set aside is asked last; /status says why, and until when.',
      names: Object.fromEntries(nodeStates.map((state, index) => [String(index + 1), state])),
      queries: [[`sum by (instance, endpoint) (${stateNumber})`, '{{instance}} {{endpoint}}']],
    }),
    lines({
      title: 'Calls per second',
      text: 'Sent to each node, forwarded ones included.',
      unit: 'reqps',
      width: 12,
      queries: [[rate('upstream_requests_total', ['endpoint']), '{{instance}} {{endpoint}}']],
    }),
    lines({
      title: 'Calls per second, by method',
      text: 'What the nodes are asked for.',
      unit: 'reqps',
      isStacked: true,
      queries: [[rate('upstream_requests_total', ['method']), '{{instance}} {{method}}']],
    }),
    lines({
      title: 'Failed calls per second',
      text: 'By kind. not_yet and not_found are usual at the tip: the node has the block and not yet its collections.',
      unit: 'reqps',
      queries: [[rate('upstream_errors_total', ['endpoint', 'kind']), '{{instance}} {{endpoint}} {{kind}}']],
    }),
    lines({
      title: 'Failed calls per second, by method',
      text: 'Without those that say that something is not there yet.',
      unit: 'reqps',
      queries: [
        [
          rate('upstream_errors_total', ['endpoint', 'method'], 'kind!~"not_yet|not_found|below_root"'),
          '{{instance}} {{endpoint}} {{method}}',
        ],
      ],
    }),
    lines({
      title: 'Latency of calls',
      text: 'Of unary calls that were answered.',
      unit: 's',
      queries: quantiles('upstream_latency_seconds', ['endpoint']),
    }),
    lines({
      title: 'Caught lying',
      text: 'How often each node sent what was proved wrong. Should stay at 0.',
      limits: [null, 1],
      queries: [[increase('endpoint_lies_total', ['endpoint']), '{{instance}} {{endpoint}}']],
    }),
    lines({
      title: 'Found foreign',
      text: 'How often a node was found to be of another chain or spork. Should stay at 0.',
      limits: [null, 1],
      queries: [[increase('foreign_nodes_total', ['reason']), '{{instance}} {{reason}}']],
    }),
  ],
};
