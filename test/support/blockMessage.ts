/** Blocks as flow-go writes them in JSON, as `flow.entities.Block` in full form: what a node would send of them. */
import { WireWriter } from '../../src/flow/index.js';
import { base64, hex, items, list, text, type Json } from './proofReference.js';

const MILLIS_PER_SECOND = 1000;

/** Takes the header and the payload apart, as snapshots and recordings of old versions have them. */
export function fullBlockMessage({
  header,
  payload,
}: {
  readonly header: Json;
  readonly payload: Json;
}): Buffer {
  const id = hex(header['ID']);
  const time = timestamp(header['Timestamp']);
  const signature = base64(header['ParentVoterSigData']);
  const begun = (): WireWriter => {
    const place = new WireWriter().bytes(1, id).bytes(2, hex(header['ParentID']));
    return place.number(3, Number(header['Height'])).element(4, time);
  };
  const headerMessage = begun()
    .bytes(5, hex(header['PayloadHash']))
    .number(6, Number(header['View']))
    .elements(7, list(header['ParentVoterIDs']).map(hex))
    .bytes(8, signature)
    .bytes(9, hex(header['ProposerID']))
    .text(11, text(header['ChainID']))
    .bytes(12, base64(header['ParentVoterIndices']));
  const timeout = header['LastViewTC'];
  if (timeout !== undefined && timeout !== null) headerMessage.element(13, timeoutMessage(timeout as Json));
  headerMessage.number(14, Number(header['ParentView'] ?? 0));
  return begun()
    .elements(5, items(payload['Guarantees']).map(guaranteeMessage))
    .elements(6, items(payload['Seals']).map(sealMessage))
    .element(7, signature)
    .elements(8, items(payload['Receipts']).map(receiptMessage))
    .elements(9, items(payload['Results']).map(resultMessage))
    .element(10, headerMessage.finish())
    .bytes(11, hex(payload['ProtocolStateID']))
    .finish();
}

function guaranteeMessage(guarantee: Json): Buffer {
  return new WireWriter()
    .bytes(1, hex(guarantee['CollectionID']))
    .element(2, base64(guarantee['Signature']))
    .bytes(3, hex(guarantee['ReferenceBlockID']))
    .bytes(4, base64(guarantee['Signature']))
    .bytes(6, base64(guarantee['SignerIndices']))
    .text(7, text(guarantee['ChainID'] ?? guarantee['ClusterChainID']))
    .finish();
}

function sealMessage(seal: Json): Buffer {
  const approvals = items(seal['AggregatedApprovalSigs']).map((each) =>
    new WireWriter()
      .elements(1, list(each['VerifierSignatures']).map(base64))
      .elements(2, list(each['SignerIDs']).map(hex))
      .finish(),
  );
  return new WireWriter()
    .bytes(1, hex(seal['BlockID']))
    .bytes(5, hex(seal['FinalState']))
    .bytes(6, hex(seal['ResultID']))
    .elements(7, approvals)
    .finish();
}

function receiptMessage(receipt: Json): Buffer {
  return new WireWriter()
    .bytes(1, hex(receipt['ExecutorID']))
    .bytes(2, hex(receipt['ResultID']))
    .elements(3, list(receipt['Spocks']).map(base64))
    .bytes(4, base64(receipt['ExecutorSignature']))
    .finish();
}

/** Only what tells one result from another. */
function resultMessage(result: Json): Buffer {
  return new WireWriter().bytes(1, hex(result['PreviousResultID'])).bytes(2, hex(result['BlockID'])).finish();
}

function timeoutMessage(timeout: Json): Buffer {
  const newest = timeout['NewestQC'] as Json;
  const views = new WireWriter();
  for (const view of list(timeout['NewestQCViews'])) views.packed(Number(view));
  const certificate = new WireWriter()
    .number(1, Number(newest['View']))
    .bytes(2, hex(newest['BlockID']))
    .bytes(3, base64(newest['SignerIndices']))
    .bytes(4, base64(newest['SigData']));
  return new WireWriter()
    .number(1, Number(timeout['View']))
    .bytes(2, views.finish())
    .element(3, certificate.finish())
    .bytes(4, base64(timeout['SignerIndices']))
    .bytes(5, base64(timeout['SigData']))
    .finish();
}

/** Milliseconds since 1970, or text with up to nine digits of a second. */
function timestamp(time: unknown): Buffer {
  if (typeof time === 'number')
    return secondsAndNanos(Math.floor(time / MILLIS_PER_SECOND), (time % MILLIS_PER_SECOND) * 1_000_000);
  const [, seconds = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(text(time)) ?? [];
  return secondsAndNanos(Date.parse(`${seconds}Z`) / MILLIS_PER_SECOND, Number(fraction.padEnd(9, '0')));
}

function secondsAndNanos(seconds: number, nanos: number): Buffer {
  return new WireWriter().number(1, seconds).number(2, nanos).finish();
}
