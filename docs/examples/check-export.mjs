// Checks an export without the program that wrote it: every collection id from the ids of its transactions, and the digest
// of the closing line. Node.js alone: node docs/examples/check-export.mjs FILE
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';

const sha3 = (bytes) => createHash('sha3-256').update(bytes).digest('hex');

/** The RLP header of a list whose items take this many bytes. */
function listHeader(length) {
  if (length < 56) return Buffer.from([0xc0 + length]);
  const digits = length.toString(16);
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex');
  return Buffer.concat([Buffer.from([0xf7 + bytes.length]), bytes]);
}

const list = (items) => Buffer.concat([listHeader(items.length), items]);

/** SHA3-256 of the RLP form of [[id, id, …]]; the RLP form of an id is 0xa0 and its 32 bytes. */
const collectionId = (transactionIds) =>
  sha3(list(list(Buffer.concat(transactionIds.map((id) => Buffer.from(`a0${id}`, 'hex'))))));

const digest = createHash('sha256');
let pending = [];
let collections = 0;
let isWhole = false;

for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const entry = JSON.parse(line);
  if (entry.kind === 'end') {
    if (digest.digest('hex') !== entry.sha256) throw new Error('the file is not what was exported');
    if (collections !== entry.collections) throw new Error('collections are missing');
    isWhole = true;
    console.log(`heights ${entry.from} to ${entry.to}: ${collections} collections have their ids`);
    break;
  }
  digest.update(`${line}\n`);
  if (entry.kind === 'block') {
    pending = entry.collections.map((collection) => ({ ...collection, ids: [] }));
  } else {
    pending[entry.collection_index].ids.push(entry.transaction.id);
  }
  for (const collection of pending) {
    if (collection.isChecked || collection.ids.length < collection.transaction_count) continue;
    if (collectionId(collection.ids) !== collection.collection_id) {
      throw new Error(`collection ${collection.collection_id} does not hold these transactions`);
    }
    collection.isChecked = true;
    collections += 1;
  }
}
if (!isWhole) throw new Error('the file has no closing line: it was cut off');
