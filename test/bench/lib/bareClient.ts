import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import type { ServiceDefinition } from '@grpc/proto-loader';
import { loadProtocol } from '../../../src/devnet/index.js';

const FIRST_HEIGHT = '1';
const WINDOW_BYTES = 8 * 1024 * 1024;
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

const identity = (message: Buffer): Buffer => message;

/** grpc-js and nothing else: what comes is handed over as the bytes that came. */
export function bareClient(node: string) {
  const Client = makeGenericClientConstructor({}, 'bare');
  const client = new Client(node, credentials.createInsecure(), {
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc-node.flow_control_window': WINDOW_BYTES,
  });
  const protocol = loadProtocol();
  const methodOf = (service: string, name: string) => {
    const method = (protocol[service] as ServiceDefinition | undefined)?.[name];
    if (method === undefined) throw new Error(`${service} has no method ${name}`);
    return method;
  };
  const blocks = methodOf('flow.access.AccessAPI', 'SubscribeBlocksFromStartHeight');
  const byId = {
    transaction: methodOf('flow.access.AccessAPI', 'GetTransaction'),
    collection: methodOf('flow.access.AccessAPI', 'GetFullCollectionByID'),
  };
  const executionData = methodOf(
    'flow.executiondata.ExecutionDataAPI',
    'SubscribeExecutionDataFromStartBlockHeight',
  );
  return {
    blocks: ({ isFull } = { isFull: false }) =>
      client.makeServerStreamRequest(blocks.path, blocks.requestSerialize, identity, {
        start_block_height: FIRST_HEIGHT,
        block_status: 'BLOCK_FINALIZED',
        full_block_response: isFull,
      }),
    executionData: () =>
      client.makeServerStreamRequest(executionData.path, executionData.requestSerialize, identity, {
        start_block_height: FIRST_HEIGHT,
        event_encoding_version: 'CCF_V0',
      }),
    /** A transaction or a whole collection, by the 32 bytes of its id. */
    read: (
      kind: keyof typeof byId,
      id: Buffer,
      onAnswer: (error: Error | null, message: Buffer | undefined) => void,
    ): void => {
      client.makeUnaryRequest(byId[kind].path, byId[kind].requestSerialize, identity, { id }, onAnswer);
    },
    close: () => client.close(),
  };
}
