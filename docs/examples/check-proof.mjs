// Checks a proof document without the program that wrote it (docs/proofs.md):
//   node docs/examples/check-proof.mjs FILE HEIGHT:BLOCK_ID
// HEIGHT:BLOCK_ID is what you trust. Exit code 0: all that is printed follows from it. Otherwise 65, with what does not fit.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { blake2b } from '@noble/hashes/blake2.js';
import { sha3_256 } from '@noble/hashes/sha3.js';

const MAX_HEADERS = 1000;
const ID = /^[0-9a-f]{64}$/;

/** What is wrong with a document. */
export class Misfit extends Error {}

function ensure(holds, misfit) {
  if (!holds) throw new Misfit(misfit);
}

const sha3 = (bytes) => Buffer.from(sha3_256(bytes)).toString('hex');

function bytesOf(text, what) {
  ensure(typeof text === 'string' && /^([0-9a-f]{2})*$/.test(text), `${what} is not hexadecimal`);
  return Buffer.from(text, 'hex');
}

/** Cuts one RLP item off: its payload, whether it is a list, and where the next item begins. */
function cutItem(bytes, at, what) {
  ensure(at < bytes.length, `${what} is cut short`);
  const first = bytes[at];
  if (first < 0x80) return { payload: bytes.subarray(at, at + 1), isList: false, next: at + 1 };
  const isList = first >= 0xc0;
  let length = first - (isList ? 0xc0 : 0x80);
  let start = at + 1;
  if (length > 55) {
    const digits = length - 55;
    ensure(digits <= 4 && start + digits <= bytes.length, `${what} is no RLP`);
    length = bytes.readUIntBE(start, digits);
    start += digits;
  }
  ensure(start + length <= bytes.length, `${what} is cut short`);
  return { payload: bytes.subarray(start, start + length), isList, next: start + length };
}

/** The items of bytes that are one RLP list of byte strings, but for lists within, which are left as they are. */
function itemsOf(bytes, what) {
  const list = cutItem(bytes, 0, what);
  ensure(list.isList && list.next === bytes.length, `${what} is not one list`);
  const items = [];
  for (let at = 0; at < list.payload.length;) {
    const { payload, next } = cutItem(list.payload, at, what);
    items.push(payload);
    at = next;
  }
  return items;
}

function listHeader(length) {
  if (length < 56) return Buffer.from([0xc0 + length]);
  const digits = length.toString(16);
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex');
  return Buffer.concat([Buffer.from([0xf7 + bytes.length]), bytes]);
}

const list = (items) => Buffer.concat([listHeader(items.length), items]);

/** SHA3-256 of the RLP form of [[id, id, …]]. */
const collectionId = (ids) => sha3(list(list(Buffer.concat(ids.map((id) => Buffer.from(`a0${id}`, 'hex'))))));

/** BLAKE2b-256 whose key is one byte, which says what is hashed. */
const tagged = (tag, ...parts) => blake2b(Buffer.concat(parts), { key: Uint8Array.of(tag), dkLen: 32 });

/** The root of a binary patricia trie from ids, as texts of 256 bits, to their indexes. All agree in bits below `depth`. */
function trieRoot(leaves, depth) {
  let end = depth;
  while (end < 256 && leaves.every(({ bits }) => bits[end] === leaves[0].bits[end])) end++;
  let node;
  if (end === 256) {
    ensure(leaves.length === 1, 'a guarantee is there twice');
    const index = Buffer.alloc(8);
    index.writeBigUInt64BE(BigInt(leaves[0].index));
    node = tagged(0, index);
  } else {
    const side = (bit) =>
      trieRoot(
        leaves.filter(({ bits }) => bits[end] === bit),
        end + 1,
      );
    node = tagged(1, side('0'), side('1'));
  }
  if (end === depth) return node;
  const path = leaves[0].bits.slice(depth, end);
  const packed = path.match(/.{1,8}/g).map((byte) => parseInt(byte.padEnd(8, '0'), 2));
  return tagged(2, Buffer.from([path.length >> 8, path.length & 0xff, ...packed]), node);
}

function merkleRoot(ids) {
  if (ids.length === 0) return blake2b(new Uint8Array(), { dkLen: 32 });
  const bitsOf = (id) =>
    [...Buffer.from(id, 'hex')].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return trieRoot(
    ids.map((id, index) => ({ bits: bitsOf(id), index })),
    0,
  );
}

/** In every form of a header these are its first items: chain, parent, height, payload hash. */
function readHeader(text, index) {
  const what = `header ${index}`;
  const bytes = bytesOf(text, what);
  const [chain, parent, height, payload] = itemsOf(bytes, what);
  ensure(payload?.length === 32 && height.length <= 6, `${what} is not that of a block`);
  return {
    id: sha3(bytes),
    chain: chain.toString(),
    parentId: parent.toString('hex'),
    height: height.length === 0 ? 0 : height.readUIntBE(0, height.length),
    payloadHash: payload.toString('hex'),
  };
}

/** The ids over which the Merkle root goes, and the collections that the guarantees are for. */
function readGuarantee(text, index) {
  const what = `guarantee ${index}`;
  const bytes = bytesOf(text, what);
  if (bytes.length === 32) return { id: text, collection: text };
  const items = itemsOf(bytes, what);
  ensure(items.length === 5 && items[0].length === 32, `${what} is not that of a collection`);
  return { id: sha3(bytes), collection: items[0].toString('hex') };
}

/** What follows from the trusted HEIGHT:BLOCK_ID, a line each. Throws `Misfit`; `SyntaxError` for what is no JSON. */
export function checkProof(text, trusted) {
  const document = JSON.parse(text);
  ensure(document !== null && typeof document === 'object', 'this is no document');
  const known = ['version', 'headers', 'guarantees', 'otherRoots', 'collection', 'transaction'];
  for (const key of Object.keys(document))
    ensure(known.includes(key), 'the document has a field that is not known');
  ensure(document.version === 1, 'the version is not known');
  const { headers, guarantees, collection, transaction } = document;
  ensure(
    Array.isArray(headers) && headers.length > 0 && headers.length <= MAX_HEADERS,
    'there are no headers',
  );
  ensure(Array.isArray(guarantees), 'there are no guarantees');

  const chain = headers.map(readHeader);
  chain.forEach((header, index) => {
    const below = chain[index - 1];
    const fits = !below || (header.parentId === below.id && header.height === below.height + 1);
    ensure(fits && header.chain === chain[0].chain, `header ${index} does not follow the one before`);
  });
  const [block] = chain;
  const last = chain[chain.length - 1];
  ensure(`${last.height}:${last.id}` === trusted, `the last header is that of ${last.height}:${last.id}`);

  const otherRoots = bytesOf(document.otherRoots, 'otherRoots');
  ensure([96, 128].includes(otherRoots.length), 'otherRoots has a wrong length');
  const guaranteed = guarantees.map(readGuarantee);
  const root = merkleRoot(guaranteed.map(({ id }) => id));
  ensure(
    sha3(Buffer.concat([root, otherRoots])) === block.payloadHash,
    'the payload does not fit the header',
  );
  const collections = guaranteed.map((each) => each.collection);
  const proven = [
    `block ${block.height}:${block.id} of ${block.chain}, with ${collections.length} collections`,
  ];

  if (collection !== undefined) {
    ensure(
      Array.isArray(collection) && collection.every((id) => ID.test(id)),
      'collection is not a list of ids',
    );
    const id = collectionId(collection);
    const index = collections.indexOf(id);
    ensure(index >= 0, 'the collection is not in the block');
    proven.push(`collection ${id}, number ${index} of the block, with ${collection.length} transactions`);
    if (transaction !== undefined) {
      const place = collection.indexOf(transaction);
      ensure(place >= 0, 'the transaction is not in the collection');
      proven.push(`transaction ${transaction}, number ${place} of the collection`);
    }
  } else ensure(transaction === undefined, 'the transaction has no collection');
  return proven;
}

function main([file, trusted]) {
  if (trusted === undefined) {
    console.error('Usage: node check-proof.mjs FILE HEIGHT:BLOCK_ID');
    return 64;
  }
  try {
    const proven = checkProof(readFileSync(file, 'utf8'), trusted);
    console.log(`From ${trusted} follow:\n${proven.join('\n')}`);
    return 0;
  } catch (error) {
    if (!(error instanceof Misfit || error instanceof SyntaxError)) throw error;
    console.error(`Not proven: ${error.message}`);
    return 65;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
