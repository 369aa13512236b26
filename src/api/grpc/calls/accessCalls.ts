import { accountRoles, ADDRESS_BYTES, identifierBytes, identifyTransactions } from '../../../flow/index.js';
import { toAddress, WireWriter } from '../../../flow/index.js';
import type { Address, FinalizedBlock, Identifier, RequestFields } from '../../../flow/index.js';
import { BlockHasher } from '../../../proof/index.js';
import type { AccountTransaction, IndexReader } from '../../../storage/index.js';
import * as accounts from '../../documents/accountTransactions.js';
import { ApiError, invalidArgument } from '../../view/ApiError.js';
import { provenOnly, type IndexedRange } from '../../view/indexedRange.js';
import { IndexView, nodeVersion } from '../../view/IndexView.js';
import type { StatusSource } from '../../view/statusDocument.js';
import { finalityOf, headerMessage, heightOf, idOf, provableBlock, refuseFullBlock } from './calls.js';
import type { UnaryCall } from './calls.js';

const NOTHING = Buffer.alloc(0);

/** Field number of `full_block_response` in all three block requests. */
const FULL_BLOCK_RESPONSE = 2;

/** Field number of `finality` in the request for an account's transactions. */
const ACCOUNT_FINALITY = 5;

const FINALIZED = 1;
const SEALED = 2;

/** The index at the moment when a call arrived. */
interface Moment {
  readonly view: IndexView;
  /** `flow.entities.Metadata`. */
  readonly metadata: Buffer;
}

/** Which block a request names. */
type BlockKey = (request: RequestFields, view: IndexView) => Identifier | number;

/** Serves a call from one view of the index. Expected errors: those of `UnaryCall`. */
type ViewedCall = (request: RequestFields, moment: Moment) => Promise<Buffer>;

/**
 * The calls with one response, by method: those of `flow.access.AccessAPI` that an index can serve, and those of our own
 * `flow_collection_indexer.v1.IndexAPI`. Blocks, collections and transactions are sent as stored, which is their wire form:
 * nothing is decoded on the way.
 */
export function accessCalls(
  { chainId, version }: { readonly chainId: string; readonly version: string },
  { store, status }: { readonly store: IndexReader; readonly status: Pick<StatusSource, 'range'> },
): Readonly<Record<'access' | 'index', Readonly<Record<string, UnaryCall>>>> {
  const viewed =
    (call: ViewedCall): UnaryCall =>
    (request) =>
      call(request, { view: new IndexView(store, () => status.range()), metadata: metadataOf(store) });
  const light = (key: BlockKey): UnaryCall =>
    viewed((request, moment) => {
      refuseFullBlock(request.flag(FULL_BLOCK_RESPONSE));
      return blockResponse(key(request, moment.view), moment, ({ encoded }) => encoded);
    });
  const hasher = new BlockHasher();
  const header = (key: BlockKey): UnaryCall =>
    viewed((request, moment) =>
      blockResponse(key(request, moment.view), moment, (block) => headerMessage(block, chainId, hasher)),
    );
  const access = {
    Ping: () => NOTHING,
    GetNodeVersionInfo: () => versionResponse(nodeVersion(version, store.meta(), status.range())),
    GetNetworkParameters: () => new WireWriter().text(1, chainId).finish(),
    GetLatestBlock: light((request, view) => view.head(request.flag(1) ? 'sealed' : 'final')),
    GetBlockByID: light((request) => idOf('block', request.bytes(1))),
    GetBlockByHeight: light((request) => heightOf(request.number(1))),
    GetLatestBlockHeader: header((request, view) => view.head(request.flag(1) ? 'sealed' : 'final')),
    GetBlockHeaderByID: header((request) => idOf('block', request.bytes(1))),
    GetBlockHeaderByHeight: header((request) => heightOf(request.number(1))),
    GetCollectionByID: viewed(collectionResponse),
    GetFullCollectionByID: viewed(async (request, { view, metadata }) => {
      const { encoded } = await view.item('collection', idOf('collection', request.bytes(1)));
      return transactionsResponse([encoded], metadata);
    }),
    GetTransaction: viewed(async (request, { view, metadata }) => {
      const { encoded } = await view.item('transaction', idOf('transaction', request.bytes(1)));
      return new WireWriter().element(1, encoded).element(2, metadata).finish();
    }),
    // Of the guaranteed collections only: system transactions are not indexed.
    GetTransactionsByBlockID: viewed(async (request, { view, metadata }) => {
      const { bodies } = await view.wholeBlock(idOf('block', request.bytes(1)));
      return transactionsResponse(bodies, metadata);
    }),
  };
  const index = {
    GetProvableBlock: viewed((request, moment) =>
      blockResponse(heightOf(request.number(1)), moment, provableBlock),
    ),
    GetCommitteeEvidence: viewed((request, { view }) =>
      evidenceResponse(heightOf(request.number(1)), view, store),
    ),
    GetAccountTransactions: (request: RequestFields) => accountResponse(request, store, status.range()),
  };
  return { access, index };
}

/** `flow.entities.Metadata`: the newest block served here, as finalized and as indexed. There is no node id. */
function metadataOf(store: Pick<IndexReader, 'latestBlock'>): Buffer {
  const latest = store.latestBlock();
  if (latest === undefined) return NOTHING;
  const { id, height } = latest;
  return new WireWriter().bytes(1, identifierBytes(id)).number(2, height).number(4, height).finish();
}

function versionResponse(node: ReturnType<typeof nodeVersion>): Buffer {
  const { semver, sporkId, sporkRootHeight, firstHeight, readable } = node;
  const info = new WireWriter()
    .text(1, semver)
    .bytes(3, Buffer.from(sporkId, 'hex'))
    .number(5, sporkRootHeight)
    .number(6, firstHeight);
  if (readable !== undefined) {
    info.element(7, new WireWriter().number(1, readable.start).number(2, readable.end).finish());
  }
  return new WireWriter().element(1, info.finish()).finish();
}

/** `BlockResponse` or `BlockHeaderResponse`. */
async function blockResponse(
  key: Identifier | number,
  { view, metadata }: Moment,
  encode: (block: FinalizedBlock) => Uint8Array,
): Promise<Buffer> {
  const { block } = await view.block(key);
  return new WireWriter()
    .element(1, encode(block))
    .number(2, view.isSealed(block.height) ? SEALED : FINALIZED)
    .element(3, metadata)
    .finish();
}

/** Expected errors: ApiError (unknown_id) without evidence of a readable block; StorageError. */
async function evidenceResponse(highest: number, view: IndexView, store: IndexReader): Promise<Buffer> {
  for (const evidence of (await store.evidence()).toReversed()) {
    const { height, id, protocolState, epochState, events } = evidence;
    if (height > highest || !view.covers(height) || (await view.block(height)).block.id !== id) continue;
    const head = new WireWriter().number(1, height).bytes(2, identifierBytes(id));
    return head.bytes(3, protocolState).bytes(4, epochState).elements(5, events).finish();
  }
  throw new ApiError(404, 'unknown_id', `no evidence of a committee is stored at height ${highest} or below`);
}

/** The transaction ids are recomputed: the index keeps them as keys only. */
async function collectionResponse(request: RequestFields, { view, metadata }: Moment): Promise<Buffer> {
  const id = idOf('collection', request.bytes(1));
  const { encoded } = await view.item('collection', id);
  const collection = new WireWriter()
    .bytes(1, identifierBytes(id))
    .elements(
      2,
      identifyTransactions(encoded).map((one) => identifierBytes(one.id)),
    )
    .finish();
  return new WireWriter().element(1, collection).element(2, metadata).finish();
}

/** Stored collections are `repeated Transaction transactions = 1` already. */
function transactionsResponse(bodies: readonly Uint8Array[], metadata: Buffer): Buffer {
  return Buffer.concat([...bodies, new WireWriter().element(2, metadata).finish()]);
}

/** The account route of REST as a call. Expected errors: ApiError; StorageError. */
async function accountResponse(
  request: RequestFields,
  store: Pick<IndexReader, 'accounts'>,
  range: IndexedRange,
): Promise<Buffer> {
  const limit = request.number(3);
  const page = {
    address: addressOf(request.bytes(1)),
    roles: rolesOf(request.number(2)),
    limit: limit === 0n ? accounts.DEFAULT_PAGE_ITEMS : accounts.checkLimit(Number(limit)),
    before: accounts.decodeCursor(request.bytes(4)),
  };
  const read = finalityOf(request, ACCOUNT_FINALITY) === 'proven' ? provenOnly(range) : range;
  const { transactions, next, coverage, isComplete } = await accounts.accountPage(store, page, read);
  return (
    new WireWriter()
      .elements(1, transactions.map(accountTransaction))
      .bytes(2, next === undefined ? NOTHING : accounts.encodeCursor(next))
      // No height is below 0: an empty chain that begins at height 0 covers the empty range from 1 on.
      .number(3, coverage.to < 0 ? 1 : coverage.from)
      .number(4, Math.max(0, coverage.to))
      .number(5, isComplete ? 1 : 0)
      .finish()
  );
}

function accountTransaction({ id, place, blockId, collectionId, roles }: AccountTransaction): Buffer {
  const numbers = accounts.roleNamesOf(roles).map((name) => accounts.accountRoleNames.indexOf(name) + 1);
  return new WireWriter()
    .bytes(1, identifierBytes(id))
    .number(2, place.height)
    .bytes(3, identifierBytes(blockId))
    .bytes(4, identifierBytes(collectionId))
    .number(5, place.collectionIndex)
    .number(6, place.transactionIndex)
    .bytes(7, Buffer.from(numbers))
    .finish();
}

/** Expected errors: ApiError (malformed_address). */
function addressOf(bytes: Uint8Array): Address {
  if (bytes.length === ADDRESS_BYTES) return toAddress(bytes);
  const message = `invalid address: expected ${ADDRESS_BYTES} raw bytes, got ${bytes.length}`;
  throw new ApiError(400, 'malformed_address', message);
}

/** Expected errors: ApiError (invalid_argument). */
function rolesOf(number: bigint): number {
  if (number === 0n) return accounts.ANY_ROLE;
  const name = accounts.accountRoleNames[Number(number) - 1];
  if (name !== undefined) return accountRoles[name];
  throw invalidArgument(
    `invalid role: expected a number from 0 to ${accounts.accountRoleNames.length}, got ${number}`,
  );
}
