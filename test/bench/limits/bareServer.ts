/** The limit of reads over gRPC: grpc-js and a map from ids to the bytes of their answers. Prints its port. */
import { Server, ServerCredentials, type handleUnaryCall, type ServiceDefinition } from '@grpc/grpc-js';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { WireWriter } from '../../../src/flow/index.js';
import { ownTask } from '../lib/processes.js';
import type { ReaderOptions } from '../lib/readers.js';

/** Field 1 of either request is the id: a tag and a length before it. */
const ID_OFFSET = 2;

const { profile, seed, heights } = ownTask() as ReaderOptions;
const chain = new ChainGenerator({ profile, seed });
const top = chain.block(heights);
/** As much as the daemon sends beside each answer: the newest block, as finalized and as indexed. */
const metadata = new WireWriter()
  .bytes(1, Buffer.from(top.id, 'hex'))
  .number(2, heights)
  .number(4, heights)
  .finish();
const transactions = new Map<string, Buffer>();
const collections = new Map<string, Buffer>();
for (let height = 1; height <= heights; height += 1) {
  for (const collection of chain.block(height).collections) {
    const answer = new WireWriter().elements(1, collection.transactions).element(2, metadata).finish();
    collections.set(Buffer.from(collection.id, 'hex').toString('latin1'), answer);
    for (const [index, transaction] of collection.transactions.entries()) {
      const id = collection.transactionIds.toString('latin1', 32 * index, 32 * index + 32);
      transactions.set(id, new WireWriter().element(1, transaction).element(2, metadata).finish());
    }
  }
}

const asItIs = (bytes: Buffer): Buffer => bytes;
const answersOf =
  (answers: ReadonlyMap<string, Buffer>): handleUnaryCall<Buffer, Buffer> =>
  ({ request }, callback) =>
    callback(null, answers.get(request.toString('latin1', ID_OFFSET)) ?? Buffer.alloc(0));
const methods = { GetTransaction: answersOf(transactions), GetFullCollectionByID: answersOf(collections) };
const definition: ServiceDefinition = Object.fromEntries(
  Object.keys(methods).map((name) => [
    name,
    {
      path: `/flow.access.AccessAPI/${name}`,
      ...{ requestStream: false, responseStream: false },
      ...{ requestSerialize: asItIs, requestDeserialize: asItIs },
      ...{ responseSerialize: asItIs, responseDeserialize: asItIs },
    },
  ]),
);
const server = new Server();
server.addService(definition, methods);
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  process.stdout.write(`${port}\n`);
});
process.once('disconnect', () => process.exit(0));
