import { isDeepStrictEqual } from 'node:util';
import { proofDocument, type LookupKind } from '../../src/api/index.js';
import { WireError, type Identifier } from '../../src/flow/index.js';
import { BlockProver, checkDocument, checkStoredProof } from '../../src/proof/index.js';
import { readProtocolState } from '../../src/proof/committee/protocolState.js';
import { checkProof, Misfit } from '../support/bothCheckers.js';
import { HashedChain, MemoryIndexStore, transactionIds } from '../support/index.js';
import { recordedSnapshot } from '../support/proofData.js';
import { recordedBlocks } from '../support/provenBlocks.js';
import { changedJson, mutated } from './mutation.js';
import { insist, insistReadable, type Choices, type FuzzTarget, type Outcome, type Run } from './target.js';

const CHAIN = 'flow-localnet';
const FIRST = 100;
const LATEST = 112;
/** Besides what other targets share: small numbers of messages, each of several kilobytes. */
const SAMPLES = 40;

/** Full blocks, and the proofs that are stored of them: whatever passes for a block is that block. */
export const fullBlockTarget: FuzzTarget = {
  name: 'full-block',
  share: 60,
  open: () => {
    const prover = new BlockProver({ chainId: CHAIN });
    const made = new HashedChain({ rootHeight: FIRST });
    const messages = [
      ...recordedBlocks().map(({ full }) => full),
      ...Array.from({ length: LATEST - FIRST }, (_, index) => {
        const { encoded, hashed } = made.generator.block(FIRST + index);
        return Buffer.concat([encoded, hashed?.extras ?? Buffer.alloc(0)]);
      }),
    ];
    const samples = messages.slice(-SAMPLES).map((message) => {
      const proving = prover.prove(message);
      if (proving.kind !== 'proven') throw new Error(`a valid block is not proven: ${proving.kind}`);
      return { message, ...proving.block, proof: proving.proof };
    });
    const stored = new Map(samples.map((sample) => [sample.id, sample]));
    const prove = (choices: Choices): Outcome => {
      const message = mutated(choices, choices.of(samples).message, choices.of(samples).message);
      try {
        const proving = prover.prove(message);
        if (proving.kind === 'refused') insistReadable(`the block: ${proving.detail}`, () => message);
        if (proving.kind !== 'proven') return proving.kind === 'refused' ? proving.reason : proving.kind;
        const same = stored.get(proving.block.id);
        const isSame = same !== undefined && Buffer.from(same.encoded).equals(proving.block.encoded);
        insist(isSame, 'a block passed for another one', () => message);
        return 'accepted';
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        insistReadable(error.message, () => message);
        return error.message.replaceAll(/\d+/g, 'N');
      }
    };
    const check = (choices: Choices): Outcome => {
      const sample = choices.of(samples);
      const proof = mutated(choices, sample.proof, choices.of(samples).proof);
      const header = checkStoredProof(sample.encoded, proof, CHAIN);
      if (header === undefined) return 'stored: refused';
      const whole = checkStoredProof(sample.encoded, sample.proof, CHAIN);
      insist(isDeepStrictEqual(header, whole), 'a stored proof tells of another header', () => proof);
      return 'stored: accepted';
    };
    return (choices) => (choices.once(4) ? check(choices) : prove(choices));
  },
};

/** Snapshots of protocol states: nothing is taken from one that does not hash to the id that is asked for. */
export const protocolStateTarget: FuzzTarget = {
  name: 'protocol-state',
  share: 40,
  open: () => {
    const entries = Object.entries(recordedSnapshot().SealingSegment.ProtocolStateEntries);
    const samples = entries.slice(0, SAMPLES).map(([key, entry]) => {
      const id = key as Identifier;
      const text = JSON.stringify({ SealingSegment: { ProtocolStateEntries: { [id]: entry } } });
      const reading = readProtocolState(text, id);
      if (!reading.ok) throw new Error(`a valid snapshot is refused: ${reading.reason}`);
      return { id, text, state: reading.state };
    });
    return (choices) => {
      const { id, state, text } = choices.of(samples);
      const snapshot = changedJson(choices, text, choices.of(samples).text);
      if (snapshot === undefined) return 'not JSON';
      const changed = JSON.stringify(snapshot.value) as string | undefined;
      const reading = readProtocolState(changed ?? '', id);
      if (reading.ok) {
        const isSame = isDeepStrictEqual(reading.state, state);
        insist(isSame, 'a snapshot tells of another state', () => snapshot.value);
        return 'accepted';
      }
      insistReadable(reading.reason, () => snapshot.value);
      return reading.reason.replaceAll(/\d+/g, 'N').slice(0, 60);
    };
  },
};

/** Proof documents, as our own checker and that of docs/proofs.md read them: nothing follows from one that is not so. */
export const proofDocumentTarget: FuzzTarget = { name: 'proof-document', share: 20, open: openDocuments };

async function openDocuments(): Promise<Run> {
  const never = () => ({ valid: false, reason: 'no document here has a certificate' }) as const;
  const entries = new HashedChain({ rootHeight: FIRST }).entries(FIRST, LATEST);
  const store = await MemoryIndexStore.startingAt(FIRST);
  await store.commit({ blocks: entries, latestIndexedHeight: LATEST });
  const range = { firstIndexed: FIRST, latestIndexed: LATEST, head: LATEST, sealed: LATEST };
  const ask = async (kind: LookupKind, key: string, to: string) =>
    JSON.stringify(await proofDocument(store, { kind, key, to }, () => range));
  const samples: { readonly text: string; readonly trusted: string; readonly true: ReadonlySet<string> }[] =
    [];
  for (const entry of entries.slice(0, -3)) {
    const { height } = entry.block;
    const last = entries[height + 2 - FIRST];
    const trusted = `${height + 2}:${last?.block.id}`;
    const to = String(height + 2);
    const texts = [await ask('block', entry.block.id, to)];
    for (const [index, { id }] of entry.collections.entries()) {
      texts.push(await ask('collection', id, to));
      for (const one of transactionIds(entry, index)) texts.push(await ask('transaction', one, to));
    }
    const all = new Set(texts.flatMap((text) => checkProof(text, trusted)));
    samples.push(...texts.map((text) => ({ text, trusted, true: all })));
  }
  return (choices) => {
    const sample = choices.of(samples);
    const other = choices.of(samples).text;
    const changed = changedJson(choices, sample.text, other);
    const text =
      changed === undefined || choices.once(2)
        ? mutated(choices, Buffer.from(sample.text), Buffer.from(other)).toString()
        : JSON.stringify(changed.value);
    const verdict = checkDocument(text, sample.trusted, never);
    try {
      const follows = checkProof(text, sample.trusted);
      const isAgreed = verdict.ok && isDeepStrictEqual(verdict.proven, follows);
      insist(isAgreed, 'one checker takes what the other refuses', () => text);
      const isTrue = follows.every((line) => sample.true.has(line));
      insist(isTrue, 'something follows that is not so', () => text);
      return 'accepted';
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof Misfit)) throw error;
      insist(!verdict.ok, 'one checker takes what the other refuses', () => text);
      if (error instanceof SyntaxError) return 'not JSON';
      insistReadable(error.message, () => text);
      return error.message.replaceAll(/[0-9a-f]{64}|\d+/g, 'N').slice(0, 60);
    }
  };
}
