import { statSync } from 'node:fs';
import { parseEndpoint } from '../../access/index.js';
import type { CallCredentials, Endpoint, NodeMetadata, SporkTable } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { unlessThrown } from '../../runtime/index.js';
import { readSmallFile, unusable } from './tokens.js';

const SETTING = 'access.metadataFile';
/** The most lines of the file, without comments and blank ones. */
const MAX_LINES = 256;
/** Nodes accept some 8 KiB of headers in all. */
const MAX_VALUE_CHARACTERS = 4_096;
const FORM = 'write "host:port name: value"';
const LINE = /^(\S+)[ \t]+([^\s:]+)[ \t]*:[ \t]*(.*)$/;
const NAME = /^[a-z0-9_.-]+$/;
/** Printable ASCII, as HTTP/2 and gRPC allow it. */
const VALUE = /^[ -~]+$/;
/** gRPC, HTTP and we ourselves set these. */
const TAKEN =
  /^(?:grpc-.*|sec-websocket-.*|proxy-.*|connection|content-(?:type|length|encoding)|accept-encoding|date|expect|host|http2-settings|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent|via)$/;
/** The permission bit that lets every user write. */
const OTHERS_WRITE = 0o002;

/** Metadata by node, `host:port` in lower case. */
export type MetadataByNode = ReadonlyMap<string, NodeMetadata>;

/** A node that the configuration names, by gRPC or REST. */
type KnownNode = Pick<Endpoint, 'name' | 'tls'>;

/** Every node that a configuration may call: live, historic, peers, and the one that REST requests are forwarded to. */
export function knownNodes(
  { accessNodes, api, edi, peers }: DaemonConfig,
  sporks: SporkTable,
): readonly KnownNode[] {
  const historic = sporks.flatMap((spork) => spork.accessNodes);
  const named = [...accessNodes, ...(edi.enabled ? edi.nodes : []), ...peers, ...historic].map(parseEndpoint);
  return [...named, ...(api.forwardRest === undefined ? [] : [restNode(api.forwardRest)])];
}

/** The node at an HTTP address. */
export function restNode(address: string): KnownNode {
  const { hostname, port, protocol } = new URL(address);
  const tls = protocol === 'https:';
  return { name: `${hostname}:${port === '' ? (tls ? 443 : 80) : port}`, tls };
}

/**
 * The metadata file: for each node, what every call to it carries. Expected errors: OperatorError `configuration`, which
 * names file and line and quotes nothing else of it: any word of a misplaced line may be a secret.
 */
export function readNodeMetadata(
  file: string,
  { access, nodes }: Pick<DaemonConfig, 'access'> & { readonly nodes: readonly KnownNode[] },
): MetadataByNode {
  const text = readSmallFile(file, SETTING);
  const refuse = (why: string): never => {
    throw unusable(file, SETTING, why);
  };
  if (text.includes('\0')) refuse('it is not text in UTF-8');
  // A file removed meanwhile is read again when it is back.
  const { mode = 0 } = unlessThrown(() => statSync(file)) ?? {};
  if (process.platform !== 'win32' && (mode & OTHERS_WRITE) !== 0)
    refuse('every user of this machine may change it; chmod 600 it');
  const byNode = new Map<string, Record<string, string>>();
  let count = 0;
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const place = `line ${index + 1}`;
    count += 1;
    if (count > MAX_LINES) refuse(`${place} is one too many; at most ${MAX_LINES} are allowed`);
    const { name, value, node } = parsedLine(line, (why) => refuse(`${place} ${why}`));
    if (nodes.some((known) => known.name === node && !known.tls) && !access.metadataWithoutTls)
      refuse(
        `${place} is for ${node}, which is not called over TLS, so anyone on the way could read it; name that node as grpcs:// ` +
          '(REST: https://), or allow this with --access-metadata-without-tls',
      );
    const metadata = byNode.get(node) ?? {};
    if (Object.hasOwn(metadata, name)) refuse(`${place} sets a name that an earlier line sets for this node`);
    byNode.set(node, { ...metadata, [name]: value });
  }
  if (count === 0) refuse(`it has no line that counts; ${FORM}, one for each node`);
  return byNode;
}

function parsedLine(
  line: string,
  refuse: (why: string) => never,
): { readonly node: string; readonly name: string; readonly value: string } {
  const [, place = '', header = '', value = ''] = LINE.exec(line) ?? [];
  if (place === '') return refuse(`is in another form; ${FORM}`);
  const node = nodeOf(place) ?? refuse(`does not begin with a node; ${FORM}`);
  const name = header.toLowerCase();
  if (!NAME.test(name))
    return refuse('has a name with other characters than letters, digits, dots, dashes and underscores');
  if (name.endsWith('-bin'))
    return refuse('has a name that ends with -bin: binary metadata is not supported');
  if (TAKEN.test(name)) return refuse('has a name that HTTP or gRPC sets itself; leave the line out');
  if (value === '') return refuse(`has no value; ${FORM}`);
  if (value.length > MAX_VALUE_CHARACTERS)
    return refuse(`has a value of ${value.length} characters; at most ${MAX_VALUE_CHARACTERS} are allowed`);
  if (!VALUE.test(value)) return refuse('has a value with other characters than printable ASCII');
  return { node, name, value };
}

/** `host:port` of a word that names a node, in any of the forms that the configuration takes. */
function nodeOf(word: string): string | undefined {
  const isWeb = /^https?:\/\/[^/?#@\\]+\/?$/i.test(word);
  return unlessThrown(() => (isWeb ? restNode(word) : parseEndpoint(word)).name);
}

/** The metadata of calls to one node, from its lines. `isPeer`: another indexer, which takes bearer tokens. */
export function credentialsFor(
  { name }: Pick<Endpoint, 'name'>,
  isPeer: boolean,
  file: string | undefined,
  byNode: () => MetadataByNode,
): CallCredentials {
  const line = `"${name} ${isPeer ? 'authorization: Bearer TOKEN' : 'name: value'}"`;
  return {
    metadata: () => byNode().get(name) ?? NOTHING,
    fix: () => {
      if (file === undefined)
        return `put what it wants into a file, a line ${line}, and name that: --access-metadata-file FILE`;
      return byNode().has(name)
        ? `it does not accept what ${file} (${SETTING}) has for it: put there what it accepts`
        : `${file} (${SETTING}) has no line for ${name}: add one, ${line}`;
    },
  };
}

const NOTHING: NodeMetadata = Object.freeze({});
