// Checks a proof document without the program that wrote it (docs/proofs.md):
//   node docs/examples/check-proof.mjs FILE HEIGHT:BLOCK_ID
// HEIGHT:BLOCK_ID is what you trust. Exit code 0: all that is printed follows from it. Otherwise 65, with what does not fit.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { blake2b } from '@noble/hashes/blake2.js';
import { kmac128 } from '@noble/hashes/sha3-addons.js';

const MAX_HEADERS = 1000;
const MAX_STEPS = 104;
const CONSENSUS_ROLE = 2;
const { G1, G2, fields } = bls12_381;
const ID = /^[0-9a-f]{64}$/;

/** What is wrong with a document. */
export class Misfit extends Error {}

function ensure(holds, misfit) {
  if (!holds) throw new Misfit(misfit);
}

const sha3 = (bytes) => createHash('sha3-256').update(bytes).digest('hex');

function bytesOf(text, what) {
  ensure(
    typeof text === 'string' && text.length % 2 === 0 && !/[^0-9a-f]/.test(text),
    `${what} is not hexadecimal`,
  );
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

/** All of an RLP item: byte strings, and arrays of them. */
function decode(bytes, what, depth = 0) {
  const { payload, isList, next } = cutItem(bytes, 0, what);
  ensure(next === bytes.length && depth < 16, `${what} is no RLP`);
  if (!isList) return payload;
  const items = [];
  for (let at = 0; at < payload.length;) {
    const item = cutItem(payload, at, what);
    items.push(decode(payload.subarray(at, item.next), what, depth + 1));
    at = item.next;
  }
  return items;
}

function numberOf(bytes, what) {
  const number = bytes instanceof Uint8Array ? Number(`0x0${bytes.toString('hex')}`) : NaN;
  ensure(Number.isSafeInteger(number), `${what} is no number`);
  return number;
}

/** In every form of a header these are its first items: chain, parent, height, payload hash. */
function readHeader(text, what) {
  const bytes = bytesOf(text, what);
  const items = itemsOf(bytes, what);
  const [chain, parent, height, payload, , view] = items;
  ensure(payload?.length === 32 && height.length <= 6, `${what} is not that of a block`);
  return {
    id: sha3(bytes),
    chain: chain.toString(),
    parentId: parent.toString('hex'),
    height: height.length === 0 ? 0 : height.readUIntBE(0, height.length),
    payloadHash: payload.toString('hex'),
    view: numberOf(view, `the view of ${what}`),
    // The certificate for the parent: its view, who signed, and the signatures. Since flow-go 0.29.
    certificate: items.length === 11 ? items.slice(6, 9) : undefined,
  };
}

function readChain(headers, what) {
  const isList = Array.isArray(headers) && headers.length > 0 && headers.length <= MAX_HEADERS;
  ensure(isList, `there is no ${what}`);
  const chain = headers.map((header, index) => readHeader(header, `${what} ${index}`));
  chain.forEach((header, index) => {
    const below = chain[index - 1];
    const fits = !below || (header.parentId === below.id && header.height === below.height + 1);
    ensure(fits && header.chain === chain[0].chain, `${what} ${index} does not follow the one before`);
  });
  return chain;
}

/** Who signs in the epochs that the protocol state of a block names: each hash leads to the next. */
function readEpochs(step, block, what) {
  const roots = bytesOf(step.roots, `roots of ${what}`);
  const isRoots = roots.length === 160 && sha3(roots) === block.payloadHash;
  ensure(isRoots, `the roots of ${what} do not fit its header`);
  const protocolState = bytesOf(step.protocolState, `protocolState of ${what}`);
  ensure(
    sha3(protocolState) === roots.toString('hex', 128),
    `the protocol state of ${what} has another hash`,
  );
  let [version, values] = decode(protocolState, `protocolState of ${what}`);
  version = numberOf(version, `the version of ${what}`);
  ensure(version <= 3, `the version of ${what} is not known`);
  for (; version > 0; version--) values = values[0];
  const epochState = bytesOf(step.epochState, `epochState of ${what}`);
  ensure(sha3(epochState) === values[1].toString('hex'), `the epoch state of ${what} has another hash`);
  ensure(Array.isArray(step.events), `there are no events of ${what}`);
  const events = new Map(
    step.events.map((event) => {
      const bytes = bytesOf(event, `an event of ${what}`);
      return [sha3(bytes), decode(bytes, `an event of ${what}`)];
    }),
  );
  const epochs = decode(epochState, `epochState of ${what}`).slice(0, 3);
  return epochs.flatMap(([setupId, commitId, , extensions]) => {
    const setup = setupId && events.get(setupId.toString('hex'));
    const commit = commitId && events.get(commitId.toString('hex'));
    if (!setup || !commit) return [];
    const members = setup[6]
      .map(([nodeId, , role, weight, key]) => ({ nodeId, role, weight: numberOf(weight, 'a weight'), key }))
      .filter(({ role, weight }) => numberOf(role, 'a role') === CONSENSUS_ROLE && weight > 0)
      .sort((a, b) => Buffer.compare(a.nodeId, b.nodeId));
    const firstView = numberOf(setup[1], 'a view');
    const lastView = numberOf(extensions.length > 0 ? extensions.at(-1)[1] : setup[5], 'a view');
    return [{ firstView, lastView, members, beaconKey: commit[2] }];
  });
}

/** The library wants the halves of a key the other way round, with the flags in front. */
function keyPoint(bytes) {
  ensure(bytes.length === 96 && (bytes[48] & 0xe0) === 0, 'a key is none');
  const swapped = Buffer.concat([bytes.subarray(48), bytes.subarray(0, 48)]);
  swapped[0] |= bytes[0] & 0xe0;
  swapped[48] &= 0x1f;
  return pointOf(G2.Point, swapped);
}

/** Of the group, and not infinity. */
function pointOf(Point, bytes) {
  let point;
  try {
    point = Point.fromBytes(bytes);
  } catch {
    throw new Misfit('a key or signature is no point of the curve');
  }
  ensure(!point.is0(), 'a key or signature is nothing');
  return point;
}

/** Flow's way from a message to a point of G1: 128 bytes of KMAC128, two numbers, two points. */
function messagePoint(tag, message) {
  const key = Buffer.from(`${tag}BLS_SIG_BLS12381G1_XOF:KMAC128_SSWU_RO_POP_`);
  const bytes = Buffer.from(kmac128(key, message, { personalization: Buffer.from('H2C'), dkLen: 128 }));
  const [left, right] = [0, 64].map((from) =>
    G1.mapToCurve(fields.Fp.create(BigInt(`0x${bytes.toString('hex', from, from + 64)}`))),
  );
  return left.add(right);
}

function isSigned(tag, message, key, signature) {
  const pairs = [
    { g1: messagePoint(tag, message), g2: key },
    { g1: pointOf(G1.Point, signature).negate(), g2: G2.Point.BASE },
  ];
  return fields.Fp12.eql(bls12_381.pairingBatch(pairs), fields.Fp12.ONE);
}

/** The first block is final: its child has the next view, and two thirds of the committee signed for that. */
function checkFinal(chain, epochs) {
  ensure(chain.length >= 3, 'a block needs two headers after it to be final');
  const [block, child, certifying] = chain.slice(-3);
  const where = `the certificate in block ${certifying.height}`;
  ensure(child.view === block.view + 1, `block ${child.height} has not the view after that of its parent`);
  ensure(certifying.certificate !== undefined, `${where} is missing`);
  const [view, indices, signatures] = certifying.certificate;
  ensure(numberOf(view, 'a view') === child.view, `${where} is for another view`);
  const epoch = epochs.findLast(
    ({ firstView, lastView }) => child.view >= firstView && child.view <= lastView,
  );
  ensure(epoch !== undefined, `who signs in view ${child.view} is not in the document`);
  const { members, beaconKey } = epoch;

  const bits = Math.ceil(members.length / 8);
  ensure(indices.length === 4 + bits, `${where} has other members`);
  const checksum = crc32(Buffer.concat(members.map(({ nodeId }) => nodeId)));
  ensure(indices.readUInt32BE(0) === checksum, `${where} is of another committee`);
  const hasBit = (index) => ((indices[4 + (index >> 3)] << (index & 7)) & 0x80) !== 0;
  for (let index = members.length; index < 8 * bits; index++)
    ensure(!hasBit(index), `${where} has other members`);
  const signers = members.filter((_, index) => hasBit(index));
  const weightOf = (some) => some.reduce((sum, { weight }) => sum + weight, 0);
  const total = weightOf(members);
  const threshold = 2 * Math.floor(total / 3) + Math.max(1, total % 3);
  ensure(weightOf(signers) >= threshold, `${where} has ${weightOf(signers)} of ${threshold}`);

  const parts = itemsOf(signatures, where);
  const isKnown = parts.length === 4 && parts[0].every((byte) => byte === 0) && parts[2].length === 0;
  ensure(isKnown && parts[0].length === Math.ceil(signers.length / 8), `${where} has an unknown form`);
  const message = Buffer.alloc(8);
  message.writeBigUInt64BE(BigInt(child.view));
  const signed = Buffer.concat([message, Buffer.from(child.id, 'hex')]);
  const key = signers.map((member) => keyPoint(member.key)).reduce((sum, each) => sum.add(each));
  ensure(!key.is0(), `${where} has keys that cancel out`);
  ensure(isSigned('FLOW-Consensus_Vote-V00-CS00-with-', signed, key, parts[1]), `${where} was not signed`);
  if (beaconKey.length === 0) return;
  const beacon = keyPoint(beaconKey);
  ensure(
    isSigned('FLOW-Random_Beacon-V00-CS00-with-', signed, beacon, parts[3]),
    `${where} is without beacon`,
  );
}

/** From the trusted block to who signed for `chain`. Returns the trusted block. */
function readWay(way, chain) {
  ensure(Array.isArray(way) && way.length > 0 && way.length <= MAX_STEPS, 'there is no way');
  let anchor;
  let epochs;
  way.forEach((step, index) => {
    ensure(step !== null && typeof step === 'object', `step ${index} is none`);
    const known = ['headers', 'roots', 'protocolState', 'epochState', 'events'];
    for (const field of Object.keys(step)) ensure(known.includes(field), `${field} is not known`);
    const headers = readChain(step.headers, `header of step ${index},`);
    ensure(headers[0].chain === chain[0].chain, `step ${index} is of another chain`);
    if (anchor === undefined) [anchor] = headers;
    else checkFinal(headers, epochs);
    ensure(index > 0 || headers.length === 1, 'the trusted block has headers above it');
    epochs = readEpochs(step, headers[0], `step ${index}`);
  });
  checkFinal(chain, epochs);
  return anchor;
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
  const known = ['version', 'headers', 'guarantees', 'otherRoots', 'collection', 'transaction', 'way'];
  for (const key of Object.keys(document))
    ensure(known.includes(key), 'the document has a field that is not known');
  ensure(document.version === 1, 'the version is not known');
  const { headers, guarantees, collection, transaction } = document;
  ensure(Array.isArray(guarantees), 'there are no guarantees');

  const chain = readChain(headers, 'header');
  const [block] = chain;
  const from = document.way === undefined ? chain.at(-1) : readWay(document.way, chain);
  ensure(`${from.height}:${from.id}` === trusted, `all follows from ${from.height}:${from.id}`);

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
    `block ${block.height}:${block.id} of ${block.chain}, with ${collections.length} collections${document.way ? ', is final' : ''}`,
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
    if (error.syscall !== undefined) {
      console.error(`Cannot read ${file}: ${error.message}`);
      return 64;
    }
    if (!(error instanceof Misfit || error instanceof SyntaxError)) throw error;
    console.error(`Not proven: ${error.message}`);
    return 65;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
