import { WireWriter } from '../../flow/index.js';
import type { ChainProfile } from './chainProfile.js';
import type { Prng } from './Prng.js';

const ID_BYTES = 32;
const PATH_BYTES = 32;
const PAYLOAD_VALUE_BYTES = 128;
/** Templates exist for transaction indexes of one and two bytes; no block has more. */
const INDEX_TEMPLATE_VALUES = [0, 1, 128] as const;
const INDEX_MAX = 16_383;
const EVENT_TYPES = [
  'A.f233dcee88fe0abe.FungibleToken.Withdrawn',
  'A.f233dcee88fe0abe.FungibleToken.Deposited',
];
/** The offset of the id in a result: after the tags and lengths of the result and of its first field. */
const RESULT_ID_AT = 4;
const COMPUTATION_USED = 300;
const marker = Buffer.alloc(ID_BYTES, 0xb1);

interface Template {
  readonly bytes: Buffer;
  /** Where transaction ids go; each is followed by a tag byte and its index. */
  readonly idsAt: readonly number[];
}

/**
 * The parts of execution data besides transactions: events, trie updates, results. A collection indexer skips
 * them, so the content repeats, with only ids and hashes written in; shape and size are realistic.
 */
export class ExecutionBulk {
  readonly #events: readonly Template[];
  readonly #succeeded: Buffer;
  readonly #failed: Buffer;
  readonly #path: Buffer;
  readonly #payload: Buffer;
  /** The most paths and payloads needed so far; smaller updates use the beginning. */
  #paths = Buffer.alloc(0);
  #payloads = Buffer.alloc(0);

  constructor(profile: Pick<ChainProfile, 'eventsPerTransaction' | 'eventPayloadBytes'>) {
    this.#events = INDEX_TEMPLATE_VALUES.map((index) => eventTemplate(index, profile));
    this.#succeeded = resultTemplate(false);
    this.#failed = resultTemplate(true);
    this.#path = new WireWriter().element(2, Buffer.alloc(PATH_BYTES, 0xb2)).finish();
    const keyPart = new WireWriter().number(1, 2).bytes(2, Buffer.alloc(16, 'key part')).finish();
    const payload = new WireWriter()
      .element(1, keyPart)
      .bytes(2, Buffer.alloc(PAYLOAD_VALUE_BYTES, 'register value '))
      .finish();
    this.#payload = new WireWriter().element(3, payload).finish();
  }

  /** Field 2 of a chunk, several times: the events of the transaction whose id is the 32 bytes at `offset`. */
  events(ids: Buffer, offset: number, transactionIndex: number): Buffer {
    const index = transactionIndex % (INDEX_MAX + 1);
    const template = this.#events[index === 0 ? 0 : index < 128 ? 1 : 2];
    if (template === undefined) throw new RangeError('there is a template for each size of index');
    const bytes = Buffer.from(template.bytes);
    for (const at of template.idsAt) {
      ids.copy(bytes, at, offset, offset + ID_BYTES);
      const indexAt = at + ID_BYTES + 1;
      if (index >= 128) {
        bytes[indexAt] = (index & 0x7f) | 0x80;
        bytes[indexAt + 1] = index >> 7;
      } else if (index > 0) {
        bytes[indexAt] = index;
      }
    }
    return bytes;
  }

  /** A `TrieUpdate` of about this size, in pieces. */
  trieUpdate(byteLength: number, words: Prng): Buffer[] {
    const root = Buffer.allocUnsafe(2 + PATH_BYTES);
    root[0] = 0x0a;
    root[1] = PATH_BYTES;
    words.fill(root, 2, PATH_BYTES);
    const count = Math.floor(byteLength / (this.#path.length + this.#payload.length));
    if (count * this.#path.length > this.#paths.length) {
      this.#paths = Buffer.alloc(count * this.#path.length, this.#path);
      this.#payloads = Buffer.alloc(count * this.#payload.length, this.#payload);
    }
    return [
      root,
      this.#paths.subarray(0, count * this.#path.length),
      this.#payloads.subarray(0, count * this.#payload.length),
    ];
  }

  /** Field 4 of a chunk: the result of the transaction whose id is the 32 bytes at `offset`. */
  result(ids: Buffer, offset: number, words: Prng): Buffer {
    const bytes = Buffer.from(words.chance(0.02) ? this.#failed : this.#succeeded);
    ids.copy(bytes, RESULT_ID_AT, offset, offset + ID_BYTES);
    return bytes;
  }
}

function resultTemplate(hasFailed: boolean): Buffer {
  const result = new WireWriter()
    .bytes(1, marker)
    .number(2, hasFailed ? 1 : 0)
    .number(3, COMPUTATION_USED);
  return new WireWriter().element(4, result.finish()).finish();
}

function eventTemplate(
  transactionIndex: number,
  profile: Pick<ChainProfile, 'eventsPerTransaction' | 'eventPayloadBytes'>,
): Template {
  const writer = new WireWriter();
  for (let index = 0; index < profile.eventsPerTransaction; index++) {
    const event = new WireWriter()
      .text(1, EVENT_TYPES[index % EVENT_TYPES.length] ?? '')
      .bytes(2, marker)
      .number(3, transactionIndex)
      .number(4, index)
      .bytes(5, Buffer.alloc(profile.eventPayloadBytes, 'event payload '));
    writer.element(2, event.finish());
  }
  const bytes = writer.finish();
  const idsAt: number[] = [];
  for (let at = bytes.indexOf(marker); at >= 0; at = bytes.indexOf(marker, at + ID_BYTES)) idsAt.push(at);
  return { bytes, idsAt };
}
