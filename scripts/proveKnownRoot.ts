/* eslint-disable no-console -- what it prints is its result */
// `npx tsx scripts/proveKnownRoot.ts FILE`: verifies the certificate of a network's root block, from the root protocol
// snapshot that the network published (JSON, also gzipped), and says what it found. Snapshots of the present form have
// their committee proven by the block's protocol state; older ones, since flow-go 0.29, name it.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parseIdentifier, type Identifier } from '../src/flow/index.js';
import { prepareCommittee, verifyCertificate } from '../src/proof/certificates/verifyCertificate.js';
import { weightOf } from '../src/proof/committee/committee.js';
import { readProtocolState } from '../src/proof/committee/protocolState.js';
import type { Committee } from '../src/proof/index.js';

interface OldIdentity {
  readonly NodeID: string;
  readonly Role: string;
  readonly Weight: number;
  readonly StakingPubKey: string;
}

interface Snapshot {
  readonly QuorumCertificate: {
    readonly View: number;
    readonly BlockID: string;
    readonly SignerIndices: string;
    readonly SigData: string;
  };
  readonly Params: { readonly ChainID: string; readonly SporkID: string };
  readonly SealingSegment: { readonly ProtocolStateEntries?: Readonly<Record<string, unknown>> };
  readonly Epochs?: {
    readonly Current: {
      readonly Counter: number;
      readonly InitialIdentities: readonly OldIdentity[];
      readonly DKG?: { readonly GroupKey: string };
    };
  };
}

const [path] = process.argv.slice(2);
if (path === undefined) {
  console.error('Name the file of a root protocol snapshot.');
  process.exit(2);
}
const file = readFileSync(path);
const snapshot = JSON.parse((file[0] === 0x1f ? gunzipSync(file) : file).toString()) as Snapshot;
const { QuorumCertificate: certificate, Params } = snapshot;
const committee = committeeOf(snapshot);
console.log(`${Params.ChainID}, spork ${Params.SporkID}`);
console.log(
  `committee of epoch ${committee.epoch}: ${committee.members.length} members, weight ${weightOf(committee)}`,
);
const prepared = prepareCommittee(committee);
const verdict = verifyCertificate(
  {
    view: certificate.View,
    blockId: idOf(certificate.BlockID),
    voterIndices: Buffer.from(certificate.SignerIndices, 'base64'),
    voterSigData: Buffer.from(certificate.SigData, 'base64'),
  },
  prepared,
);
console.log(`certificate of block ${certificate.BlockID}: ${JSON.stringify(verdict)}`);
process.exit(verdict.valid ? 0 : 1);

function committeeOf({ SealingSegment, Epochs }: Snapshot): Committee {
  if (SealingSegment.ProtocolStateEntries !== undefined) {
    const [id = ''] = Object.keys(SealingSegment.ProtocolStateEntries);
    const read = readProtocolState(JSON.stringify(snapshot), idOf(id));
    if (!read.ok) throw new Error(read.reason);
    return read.state.current.committee;
  }
  if (Epochs === undefined) throw new Error('the snapshot has no epochs');
  const { Counter, InitialIdentities, DKG } = Epochs.Current;
  const members = InitialIdentities.filter(({ Role, Weight }) => Role === 'consensus' && Weight > 0)
    .map(({ NodeID, StakingPubKey, Weight }) => ({
      nodeId: idOf(NodeID),
      stakingKey: Buffer.from(StakingPubKey, 'base64').toString('hex'),
      weight: Weight,
    }))
    .sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  return { epoch: Counter, members, ...(DKG !== undefined && { beaconKey: DKG.GroupKey }) };
}

function idOf(text: string): Identifier {
  const id = parseIdentifier(text);
  if (id === undefined) throw new Error(`${text} is no id`);
  return id;
}
