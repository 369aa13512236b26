import type { IncomingHttpHeaders } from 'node:http';
import type { WebSocket } from 'ws';
import type { RestNode } from './restNode.js';

export interface AskedOfNode {
  readonly action: string;
  readonly subscription_id: string;
  readonly topic?: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** As much of a node's WebSocket API as the tests ask for: what became of a transaction, and the events of blocks. */
export function streamTopics(node: RestNode, path = '/v1/ws') {
  const asked: AskedOfNode[] = [];
  const sockets: WebSocket[] = [];
  const headers: IncomingHttpHeaders[] = [];
  node.speak(path, (socket, given) => {
    sockets.push(socket);
    headers.push(given);
    socket.on('message', (data: Buffer) => {
      const request = JSON.parse(data.toString()) as AskedOfNode;
      asked.push(request);
      const { action, subscription_id, topic = '' } = request;
      const payloads = payloadsOf(topic);
      if (action === 'subscribe' && payloads === undefined) {
        const error = { code: 400, message: `error creating data provider: unsupported topic "${topic}"` };
        socket.send(JSON.stringify({ subscription_id, action, error }));
        return;
      }
      socket.send(JSON.stringify({ subscription_id, action }));
      for (const payload of payloads ?? []) socket.send(JSON.stringify({ subscription_id, topic, payload }));
    });
  });
  return { asked, sockets, headers };
}

function payloadsOf(topic: string): readonly unknown[] | undefined {
  if (topic === 'transaction_statuses') {
    return ['Pending', 'Finalized', 'Executed', 'Sealed'].map((status) => ({
      transaction_result: {
        ...{ block_id: 'ab'.repeat(32), collection_id: '', execution: 'Success', status, status_code: 0 },
        ...{ error_message: '', computation_used: '1', events: [] },
      },
      message_index: '0',
    }));
  }
  if (topic !== 'events') return undefined;
  const value = { type: 'Event', value: { id: 'A.0ae53cb6e3f42a79.FlowToken.TokensDeposited', fields: [] } };
  const event = {
    type: 'A.0ae53cb6e3f42a79.FlowToken.TokensDeposited',
    ...{ transaction_id: 'cd'.repeat(32), transaction_index: '0', event_index: '0' },
    payload: Buffer.from(JSON.stringify(value)).toString('base64'),
  };
  const block = { block_id: 'ab'.repeat(32), block_height: '1005', block_timestamp: '2026-01-01T00:00:00Z' };
  return [{ ...block, events: [event], message_index: '0' }];
}
