import { readFileSync } from 'node:fs';
import { ServerCredentials, status, type MetadataValue } from '@grpc/grpc-js';
import { atEnd } from './cleanup.js';
import { lastingPort } from './lastingPort.js';
import { fail, RawNode, type RawHandler } from './rawNode.js';
import { relayedFrom } from './relayedPeer.js';
import { certificateOf, keyOf, type CertificateName } from './secretFiles.js';

interface HostedCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, MetadataValue>>;
}

/** A node behind TLS for `localhost` that keeps the metadata of every call, and takes calls with the right one only. */
export class HostedNode extends RawNode {
  readonly asked: HostedCall[] = [];
  /** Calls must carry it. The refusal repeats what they carry. */
  wants: Readonly<Record<string, string>> = {};

  /** In front of the node at this address, until the end of the test. */
  static async before(
    { address }: { readonly address: string },
    certificate: CertificateName = 'localhost',
  ): Promise<HostedNode> {
    const identity = {
      private_key: readFileSync(keyOf(certificate)),
      cert_chain: readFileSync(certificateOf(certificate)),
    };
    const guarded = Object.entries(relayedFrom(address)).map(([path, relay]): [string, RawHandler] => [
      path,
      (call, request) => {
        const headers = call.metadata.getMap();
        node.asked.push({ path, headers });
        const wrong = Object.entries(node.wants).filter(([name, value]) => headers[name] !== value);
        const given = wrong.map(([name]) => `${name} ${String(headers[name] ?? 'absent')}`).join(', ');
        if (given === '') relay(call, request);
        else fail(call, status.UNAUTHENTICATED, `no such customer: ${given}`);
      },
    ]);
    const tls = ServerCredentials.createSsl(null, [identity]);
    const node = new HostedNode(Object.fromEntries(guarded), tls);
    node.port = await lastingPort();
    await node.start();
    atEnd(() => node.stop());
    return node;
  }

  get name(): string {
    return `localhost:${this.port}`;
  }

  get address(): string {
    return `grpcs://${this.name}`;
  }
}
