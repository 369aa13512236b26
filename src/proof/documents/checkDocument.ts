import { collectionIdOf, decodeRlp, IDENTIFIER_BYTES, rlpBytes, rlpItems } from '../../flow/index.js';
import { rlpNumber, sha3Identifier, WireError } from '../../flow/index.js';
import type { Identifier, RlpTree } from '../../flow/index.js';
import { certificateIn } from '../certificates/provenFinal.js';
import type { Certificate, CertificateVerdict, FinalityHeader } from '../certificates/provenFinal.js';
import { committeesIn, type Committee } from '../committee/committee.js';
import { epochsOf } from '../committee/protocolState.js';
import { list, record, text } from '../committee/shape.js';
import { BlockHasher, payloadHash } from '../ids/BlockHasher.js';

const MAX_HEADERS = 1_000;
/** An epoch lasts a week, so these are two years. */
const MAX_STEPS = 104;
/** Since flow-go 0.29 headers have eleven items; the view of the parent is among them. */
const CERTIFYING_ITEMS = 11;
const ROOTS = 5;
const FIELDS = ['version', 'headers', 'guarantees', 'otherRoots', 'collection', 'transaction', 'way'];
const STEP_FIELDS = ['headers', 'roots', 'protocolState', 'epochState', 'events'];

/** Verifies a certificate. */
export type VerifyCertificate = (certificate: Certificate, committee: Committee) => CertificateVerdict;

type Fields = ReturnType<typeof record>;
type Committees = ReturnType<typeof committeesIn>;

interface Header extends FinalityHeader {
  readonly chain: string;
  readonly payloadHash: string;
}

/**
 * Checks a proof document (docs/proofs.md), without a store or a network. `trusted`: HEIGHT:ID of the block from which
 * everything must follow; without it the caller compares the one named. `verify` is called for documents with certificates.
 * Returns what follows, a line each, and the trusted block that it follows from; or what does not match.
 */
export function checkDocument(json: string, trusted: string | undefined, verify: VerifyCertificate) {
  try {
    return { ok: true, ...follow(record(JSON.parse(json)), trusted, verify) } as const;
  } catch (error) {
    if (![WireError, SyntaxError].some((type) => error instanceof type)) throw error;
    return { ok: false, reason: (error as Error).message } as const;
  }
}

function follow(document: Fields, trusted: string | undefined, verify: VerifyCertificate) {
  knowOnly(document, FIELDS);
  ensure(document['version'] === 1, 'the version is not known');
  const headers = readChain(document['headers'], 'header');
  const [block] = headers;
  const end = headers.at(-1);
  if (block === undefined || end === undefined) throw new WireError('there are no headers');
  const isCertified = document['way'] !== undefined;
  const anchor = isCertified ? readWay(document['way'], headers, verify) : end;
  const from = `${anchor.height}:${anchor.id}`;
  ensure(trusted === undefined || trusted === from, `all follows from ${from}, which is not what is trusted`);

  const guarantees = hexList(document['guarantees'], 'guarantee').map(readGuarantee);
  const otherRoots = hex(document['otherRoots'], 'otherRoots');
  ensure([3, 4].includes(otherRoots.length / IDENTIFIER_BYTES), 'otherRoots has a wrong length');
  const roots = Buffer.concat([Buffer.alloc(IDENTIFIER_BYTES), otherRoots]);
  const ids = guarantees.map(({ id }) => Buffer.from(id, 'hex').toString('latin1'));
  ensure(new BlockHasher().root(ids, roots, 0), 'a guarantee is there twice');
  ensure(payloadHash(roots) === block.payloadHash, 'the payload does not fit the header');
  const collections = guarantees.map(({ collection }) => collection);
  const proven = [
    `block ${block.height}:${block.id} of ${block.chain}, with ${guarantees.length} collections${isCertified ? ', is final' : ''}`,
  ];
  return { from, proven: [...proven, ...inBlock(document, collections)] };
}

function inBlock(document: Fields, collections: readonly string[]): string[] {
  const { collection, transaction } = document;
  if (collection === undefined) {
    ensure(transaction === undefined, 'the transaction has no collection');
    return [];
  }
  const ids = hexList(collection, 'transaction of the collection');
  ensure(ids.every(isId), 'collection is not a list of ids');
  const id = collectionIdOf(Buffer.concat(ids));
  const index = collections.indexOf(id);
  ensure(index >= 0, 'the collection is not in the block');
  const proven = [`collection ${id}, number ${index} of the block, with ${ids.length} transactions`];
  if (transaction === undefined) return proven;
  const place = ids.findIndex((each) => each.toString('hex') === transaction);
  ensure(place >= 0, 'the transaction is not in the collection');
  return [...proven, `transaction ${text(transaction)}, number ${place} of the collection`];
}

/** Follows the steps from the trusted block to the committee that signed for `headers`, an epoch or more at each. Returns the trusted block. */
function readWay(way: unknown, headers: readonly Header[], verify: VerifyCertificate): Header {
  const steps = list(way);
  ensure(steps.length > 0 && steps.length <= MAX_STEPS, 'way has no steps, or too many');
  let anchor: Header | undefined;
  let committees: Committees = () => undefined;
  for (const [index, each] of steps.entries()) {
    const step = record(each);
    const name = `step ${index}`;
    knowOnly(step, STEP_FIELDS);
    const chain = readChain(step['headers'], `header of ${name},`);
    const [block] = chain;
    ensure(block !== undefined && (anchor !== undefined || chain.length === 1), `${name} has no header`);
    if (anchor === undefined) anchor = block;
    else checkFinal(chain, committees, verify);
    ensure(block.chain === headers[0]?.chain, `${name} is of another chain`);
    committees = committeesOf(step, block, name);
  }
  checkFinal(headers, committees, verify);
  return anchor as Header;
}

/** Checks that the first header is final: the last has the certificate for the one before, whose view directly follows its parent's. */
function checkFinal(headers: readonly Header[], committees: Committees, verify: VerifyCertificate): void {
  const [block, child, certifying] = headers.slice(-3);
  if (headers.length < 3 || block === undefined || child === undefined || certifying === undefined)
    throw new WireError('a block needs two headers after it to be final');
  const where = `the certificate in block ${certifying.height}`;
  ensure(child.view === block.view + 1, `blocks ${block.height} and ${child.height} have no views in a row`);
  ensure(
    certifying.parentView === child.view,
    `${where} is for view ${certifying.parentView}, not ${child.view}`,
  );
  const committee = committees(child.view);
  if (committee === undefined) throw new WireError(`who signs in view ${child.view} is not in the document`);
  const verdict = verify(certificateIn(certifying), committee);
  if (!verdict.valid) throw new WireError(`${where} does not hold: ${verdict.reason}`);
}

/** Who signs, by view, as the protocol state of a block says. */
function committeesOf(step: Fields, block: Header, what: string) {
  const roots = hex(step['roots'], `roots of ${what}`);
  ensure(
    roots.length === ROOTS * IDENTIFIER_BYTES && payloadHash(roots) === block.payloadHash,
    `the roots of ${what} do not fit its header`,
  );
  const state = epochsOf(
    {
      protocolState: hex(step['protocolState'], `protocolState of ${what}`),
      epochState: hex(step['epochState'], `epochState of ${what}`),
      events: hexList(step['events'], `event of ${what},`),
    },
    roots.toString('hex', roots.length - IDENTIFIER_BYTES) as Identifier,
  );
  return committeesIn(state);
}

function readChain(headers: unknown, what: string): Header[] {
  const chain = hexList(headers, what).map((bytes, index) => readHeader(bytes, `${what} ${index}`));
  ensure(chain.length <= MAX_HEADERS, 'there are too many headers');
  for (const [index, { parentId, height, chain: name }] of chain.entries()) {
    const below = chain[index - 1];
    const fits = below === undefined || (parentId === below.id && height === below.height + 1);
    ensure(fits && name === chain[0]?.chain, `${what} ${index} does not follow the one before`);
  }
  return chain;
}

function readHeader(bytes: Buffer, what: string): Header {
  const fields = rlpItems(decodeRlp(bytes));
  const [chain, parentId, height, hash, , view, ...rest] = fields;
  const voted = fields.length === CERTIFYING_ITEMS ? rest : [];
  const field = (tree: RlpTree = Buffer.alloc(0)): Buffer => rlpBytes(tree);
  ensure(isId(rlpBytes(hash)), `${what} is not that of a block`);
  return {
    id: sha3Identifier(bytes),
    chain: rlpBytes(chain).toString(),
    parentId: rlpBytes(parentId).toString('hex') as Identifier,
    height: rlpNumber(height),
    payloadHash: rlpBytes(hash).toString('latin1'),
    view: rlpNumber(view),
    parentView: rlpNumber(field(voted[0])),
    parentVoterIndices: field(voted[1]),
    parentVoterSigData: field(voted[2]),
  };
}

/** Its id, over which the Merkle root goes, and the collection that it is for: before P8 the same. */
function readGuarantee(bytes: Buffer, index: number): { readonly id: string; readonly collection: string } {
  if (isId(bytes)) return { id: bytes.toString('hex'), collection: bytes.toString('hex') };
  const fields = rlpItems(decodeRlp(bytes));
  const collection = rlpBytes(fields[0]);
  ensure(fields.length === 5 && isId(collection), `guarantee ${index} is of no collection`);
  return { id: sha3Identifier(bytes), collection: collection.toString('hex') };
}

const isId = (bytes: Buffer): boolean => bytes.length === IDENTIFIER_BYTES;

function hexList(value: unknown, what: string): Buffer[] {
  if (!Array.isArray(value)) throw new WireError(`there is no list of each ${what}`);
  return value.map((each, index) => hex(each, `${what} ${index}`));
}

function hex(value: unknown, what: string): Buffer {
  ensure(
    typeof value === 'string' && value.length % 2 === 0 && !/[^0-9a-f]/.test(value),
    `${what} is not hexadecimal`,
  );
  return Buffer.from(value, 'hex');
}

function knowOnly(object: Fields, known: readonly string[]): void {
  for (const key of Object.keys(object)) ensure(known.includes(key), 'there is a field that is not known');
}

function ensure(holds: boolean, misfit: string): asserts holds {
  if (!holds) throw new WireError(misfit);
}
